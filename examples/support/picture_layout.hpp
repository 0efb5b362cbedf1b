// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a picture of a prefix tree shows, as plain numbers and texts, and where it stands: across,
// the requests in depth-first order; down, the tokens of their paths. A node is the rectangle of
// the requests below it times its tokens; what one work item reads of it is a rectangle within.
// Colours are indices; what one means, the caller says in the legend. The picture is checked here,
// so that tree_picture.hpp writes only what can be drawn.

#include "text.hpp"

#include <fasttree/core/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fasttree::examples {

/// A part of a node in a colour of its own: requests and tokens of that node, ends exclusive.
struct PicturePatch {
  int begin_request = 0, end_request = 0;  ///< columns, within those of the node
  int begin_token = 0, end_token = 0;      ///< within 0 to the node's length
  int colour = -1;                         ///< any index from 0; -1 is grey
  std::string tooltip;
};

/// A node: its columns, the node above, its tokens, what is written on it and what it is made of.
struct PictureNode {
  int parent = -1;                         ///< a node before this one, or -1
  int begin_request = 0, end_request = 0;  ///< columns, within those of the parent
  int length = 0;                          ///< tokens
  int colour = -1;                         ///< where no patch lies: any index from 0; -1 is grey
  std::string label;                       ///< an excerpt of the text, may be empty
  std::string tooltip;
  std::vector<PicturePatch> patches;
};

/// A line of the legend.
struct PictureLegend {
  int colour = -1;
  std::string text;
};

/// All that a picture shows.
struct TreePicture {
  std::string title;
  std::string subtitle;
  std::string caption;  ///< what across, down and the colours mean
  int requests = 0;     ///< columns
  std::vector<PictureNode> nodes;
  std::vector<PictureLegend> legend;
};

/// The colour with index `index` as #rrggbb: twelve hues that are told apart on white and carry
/// dark text, neighbours far from each other, then the same lighter and darker. -1 is grey.
inline std::string picture_colour(int index) {
  constexpr std::array<int, 12> hues = {0x8fb8e0, 0xf4b77e, 0x95d0a4, 0xe59ab3, 0xf0d671, 0xbba9e2,
                                        0x7fcac6, 0xdca186, 0xb9cd7d, 0xf2a29b, 0xa3b4cc, 0xd4a5d8};
  if (index < 0) return "#dfe3e8";
  int const hue = hues[static_cast<std::size_t>(index) % hues.size()];
  int const round = index / static_cast<int>(hues.size()) % 3;
  std::string text = "#";
  for (int shift = 16; shift >= 0; shift -= 8) {
    int const value = (hue >> shift) & 0xff;
    int const shade = round == 0 ? value : round == 1 ? value + (255 - value) / 2 : value * 7 / 8;
    for (int const digit : {shade / 16, shade % 16}) {
      text += "0123456789abcdef"[digit];
    }
  }
  return text;
}

/// The letters of average width that `pixels` hold at a font of `size` pixels.
inline int letters_in(double pixels, double size) {
  return std::max(0, static_cast<int>(pixels / (0.58 * size)));
}

/// Where everything of a picture stands, in pixels.
class PictureLayout {
 public:
  static constexpr double margin = 28, line = 14, legend_row = 20, legend_column = 330;
  static constexpr std::size_t most_legend_lines = 24;

  /// Throws fasttree::Error if a node stands outside its parent or a patch outside its node.
  explicit PictureLayout(TreePicture const& picture) {
    check(picture);
    width_ = std::clamp(picture.requests * 44.0, 820.0, 1640.0);
    column_ = picture.requests > 0 ? width_ / picture.requests : width_;
    caption_ = wrap_text(picture.caption, letters_in(width_, 11), 3);
    top_ = margin + 36 + (picture.subtitle.empty() ? 0 : 20) +
           16 * static_cast<double>(caption_.size());
    place_nodes(picture);
    legend_columns_ = std::max(1, static_cast<int>(width_ / legend_column));
    legend_lines_ = std::min(picture.legend.size(), most_legend_lines);
    std::size_t const cells = legend_lines_ + (legend_lines_ < picture.legend.size() ? 1 : 0);
    auto const columns = static_cast<std::size_t>(legend_columns_);
    legend_top_ = top_ + plot_height_ + 30;
    height_ = legend_top_ + static_cast<double>((cells + columns - 1) / columns) * legend_row +
              margin - 8;
  }

  double width() const { return width_ + 2 * margin; }
  double height() const { return height_; }
  double top() const { return top_; }
  double plot_width() const { return width_; }
  double plot_height() const { return plot_height_; }
  double column() const { return column_; }
  double x(int request) const { return margin + column_ * request; }
  double y(std::size_t node) const { return top_ + begin_[node]; }
  double node_height(std::size_t node) const { return end_[node] - begin_[node]; }
  double legend_x(std::size_t cell) const {
    return margin + width_ / legend_columns_ *
                        static_cast<double>(cell % static_cast<std::size_t>(legend_columns_));
  }
  double legend_y(std::size_t cell) const {
    return legend_top_ +
           legend_row * static_cast<double>(cell / static_cast<std::size_t>(legend_columns_));
  }
  double legend_width() const { return width_ / legend_columns_; }
  std::vector<std::string> const& caption() const { return caption_; }
  std::size_t legend_lines() const { return legend_lines_; }

 private:
  static void check(TreePicture const& picture) {
    auto const fail = [](std::size_t node, std::string const& what) {
      throw Error("write_tree_picture: picture.nodes[" + std::to_string(node) + "]: " + what);
    };
    auto const range = [](int begin, int end) {
      return std::to_string(begin) + " to " + std::to_string(end);
    };
    if (picture.requests < 0)
      throw Error("write_tree_picture: picture.requests: expected 0 or more, found " +
                  std::to_string(picture.requests));
    for (std::size_t i = 0; i < picture.nodes.size(); ++i) {
      PictureNode const& node = picture.nodes[i];
      if (node.parent < -1 || node.parent >= static_cast<int>(i)) {
        fail(i, "expected a node before this one or -1 as the parent, found " +
                    std::to_string(node.parent));
      }
      if (node.length < 0) fail(i, "expected tokens, found " + std::to_string(node.length));
      bool const root = node.parent < 0;
      auto const above = static_cast<std::size_t>(root ? 0 : node.parent);
      int const low = root ? 0 : picture.nodes[above].begin_request;
      int const high = root ? picture.requests : picture.nodes[above].end_request;
      if (node.begin_request < low || node.end_request > high ||
          node.begin_request > node.end_request) {
        fail(i, "expected requests within " + range(low, high) + ", found " +
                    range(node.begin_request, node.end_request));
      }
      for (PicturePatch const& patch : node.patches) {
        if (patch.begin_request < node.begin_request || patch.end_request > node.end_request ||
            patch.begin_request > patch.end_request || patch.begin_token < 0 ||
            patch.end_token > node.length || patch.begin_token > patch.end_token) {
          fail(i, "expected a patch within the node, found requests " +
                      range(patch.begin_request, patch.end_request) + ", tokens " +
                      range(patch.begin_token, patch.end_token));
        }
      }
    }
  }

  /// A node's height is a constant, so that there is room for a line of text, plus a multiple of
  /// the root of its tokens; both are chosen so that the longest path fills the picture.
  void place_nodes(TreePicture const& picture) {
    std::size_t const count = picture.nodes.size();
    std::vector<int> depth(count);
    std::vector<double> roots(count);
    int deepest = 1;
    double longest = 1;
    for (std::size_t i = 0; i < count; ++i) {
      PictureNode const& node = picture.nodes[i];
      bool const root = node.parent < 0;
      auto const above = static_cast<std::size_t>(root ? 0 : node.parent);
      depth[i] = 1 + (root ? 0 : depth[above]);
      roots[i] = std::sqrt(static_cast<double>(node.length)) + (root ? 0 : roots[above]);
      deepest = std::max(deepest, depth[i]);
      longest = std::max(longest, roots[i]);
    }
    double const whole = std::clamp(110.0 * deepest, 260.0, 860.0);
    double const constant = std::min(22.0, 0.5 * whole / deepest);
    double const factor = (whole - constant * deepest) / longest;
    begin_.resize(count);
    end_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      PictureNode const& node = picture.nodes[i];
      begin_[i] = node.parent < 0 ? 0 : end_[node.parent];
      double const root = std::sqrt(static_cast<double>(node.length));
      end_[i] = begin_[i] + (node.length == 0 ? std::min(constant, 4.0) : constant + factor * root);
      plot_height_ = std::max(plot_height_, end_[i]);
    }
    plot_height_ += 12;  // for the dots of the requests
  }

  double width_ = 0, height_ = 0, top_ = 0, column_ = 0, plot_height_ = 40, legend_top_ = 0;
  int legend_columns_ = 1;
  std::size_t legend_lines_ = 0;
  std::vector<double> begin_, end_;
  std::vector<std::string> caption_;
};

}  // namespace fasttree::examples
