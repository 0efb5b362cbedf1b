// SPDX-License-Identifier: Apache-2.0
#pragma once
// All of fasttree, but for transports: a communicator that needs more than the standard library or
// threads is included by who uses it.

#include <fasttree/core/partials.hpp>
#include <fasttree/distributed_attention.hpp>
#include <fasttree/ring_attention.hpp>
#include <fasttree/tree_attention.hpp>
#include <fasttree/update_plan.hpp>
#include <fasttree/version.hpp>
