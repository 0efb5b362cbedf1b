// SPDX-License-Identifier: Apache-2.0

#include <fasttree/fasttree.hpp>

#include "attend.hpp"

float attend_in_other_unit() { return attend(); }
