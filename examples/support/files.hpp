// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files with one clear error: open one to read, and write one whole or not at all. A reader's
// errors begin with `name:line:` so that an editor can jump there. Writing goes to `path.partial`
// beside the target, which it replaces only when every byte is on the file system; an error leaves
// what was there before.

#include <fasttree/core/error.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace fasttree::examples {

/// Throws fasttree::Error with "name:line: message".
[[noreturn]] inline void fail_at_line(std::string const& name, long long line,
                                      std::string const& message) {
  throw Error(name + ":" + std::to_string(line) + ": " + message);
}

/// Opens `path` to read. Throws fasttree::Error if it does not exist, is a folder or is unreadable.
inline std::ifstream open_file(std::filesystem::path const& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw Error(path.string() + ": expected a file, found a folder");
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw Error(path.string() + ": cannot be read: " + std::strerror(errno != 0 ? errno : EIO));
  }
  return stream;
}

/// Writes `text` to `path`: whole, or not at all. What is not a regular file (a pipe, /dev/stdout)
/// is written directly; a symbolic link keeps pointing where it does. Throws fasttree::Error.
inline void write_file(std::filesystem::path const& path, std::string_view text) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw Error(path.string() + ": expected a file to write, found a folder");
  }
  bool const direct = fs::exists(path, error) && !fs::is_regular_file(path, error);
  fs::path const target =
      fs::is_symlink(path, error) && !direct ? fs::canonical(path, error) : path;
  fs::path const partial = direct ? target : fs::path(target.string() + ".partial");
  errno = 0;
  std::ofstream stream(partial, std::ios::binary | std::ios::trunc);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  stream.close();
  if (!stream) {
    std::string const reason = std::strerror(errno != 0 ? errno : EIO);
    if (!direct) fs::remove(partial, error);
    throw Error(path.string() + ": cannot be written: " + reason);
  }
  if (direct) return;
  fs::rename(partial, target, error);
  if (error) {
    std::string const reason = error.message();
    fs::remove(partial, error);
    throw Error(path.string() + ": cannot be written: " + reason);
  }
}

}  // namespace fasttree::examples
