// SPDX-License-Identifier: Apache-2.0
// expect: ValueDim must be a multiple of 8, at most 256
// A value dimension beyond 256.

#include <fasttree/core/attention_shape.hpp>

#ifdef FASTTREE_CONTROL
fasttree::AttentionShape<float, 128, 256> shape;
#else
fasttree::AttentionShape<float, 128, 264> shape;
#endif
