// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which backend serves an execution space: one line for each.

#include <fasttree/backend/portable/portable.hpp>

namespace fasttree {

/// The backend of `Space`.
template <class Space>
using DefaultBackend = portable::Backend<Space>;

}  // namespace fasttree
