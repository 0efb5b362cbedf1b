// SPDX-License-Identifier: Apache-2.0
#pragma once
// The version of the library. CMakeLists.txt reads it from here, so that the headers alone are
// enough. Versions follow semver.org; before 1.0 a minor version may change the interface.

#define FASTTREE_VERSION_MAJOR 0
#define FASTTREE_VERSION_MINOR 1
#define FASTTREE_VERSION_PATCH 0
