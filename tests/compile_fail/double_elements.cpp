// SPDX-License-Identifier: Apache-2.0
// expect: constraint|Element
// Elements of double: storage is float, half or bfloat16.

#include <fasttree/core/attention_shape.hpp>

#ifdef FASTTREE_CONTROL
fasttree::AttentionShape<float, 64> shape;
#else
fasttree::AttentionShape<double, 64> shape;
#endif
