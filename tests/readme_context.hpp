// SPDX-License-Identifier: Apache-2.0
// Not a header: the beginning of the function around each fragment of README.md (readme.cmake). It
// declares the names that the README's first program has introduced.
