// SPDX-License-Identifier: Apache-2.0
// expect: HeadDim must be a multiple of 8, at most 256
// A head_dim that is no multiple of 8.

#include <fasttree/core/attention_shape.hpp>

#ifdef FASTTREE_CONTROL
fasttree::AttentionShape<float, 16> shape;
#else
fasttree::AttentionShape<float, 12> shape;
#endif
