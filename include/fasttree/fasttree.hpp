// SPDX-License-Identifier: Apache-2.0
#pragma once
// All of fasttree.

#include <fasttree/core/partials.hpp>
#include <fasttree/tree_attention.hpp>
#include <fasttree/update_plan.hpp>
#include <fasttree/version.hpp>
