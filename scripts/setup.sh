# SPDX-License-Identifier: Apache-2.0
#
# What the other scripts share; sourced by them. Leaves the shell in the repository's root.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
called_from=$OLDPWD
root=$PWD
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}

say() { printf '\n== %s\n' "$*"; }
die() { printf 'fasttree: %s\n' "$*" >&2; exit 1; }

# The Debian package of each thing that is not there. A thing is a command, a header, pip, or
# clang-openmp.
missing_packages() {
  local thing package
  for thing in "$@"; do
    case $thing in
      c++) package=g++ ;;
      ninja) package=ninja-build ;;
      pip) package="python3-pip python3-setuptools" ;;
      doctest/doctest.h) package=doctest-dev ;;
      benchmark/benchmark.h) package=libbenchmark-dev ;;
      mpicxx) package=libopenmpi-dev ;;
      mpirun) package=openmpi-bin ;;
      clang++) package=clang ;;
      clang-openmp) package=libomp-dev ;;
      *) package=$thing ;;
    esac
    case $thing in
      clang-openmp)
        echo "#include <omp.h>" | clang++ -fopenmp -E -x c++ - >/dev/null 2>&1 || echo "$package" ;;
      pip) python3 -m pip --version >/dev/null 2>&1 || echo "$package" ;;
      */*) echo "#include <$thing>" | c++ -std=c++20 -E -x c++ - >/dev/null 2>&1 || echo "$package" ;;
      *) command -v "$thing" >/dev/null || echo "$package" ;;
    esac
  done
}

# Installs what is missing of the given things, by apt, without questions.
need() {
  local packages as_root=()
  packages=$(missing_packages "$@" | tr '\n' ' ')
  [[ -n $packages ]] || return 0
  command -v apt-get >/dev/null || die "please install: $packages(the names of Debian's packages)"
  if [[ $EUID -ne 0 ]]; then
    sudo -n true 2>/dev/null || die "neither root nor sudo, so please run: apt-get install $packages"
    as_root=(sudo)
  fi
  say "installing $packages"
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends $packages
}
