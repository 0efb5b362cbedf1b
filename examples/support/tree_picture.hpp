// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes the picture of a prefix tree as an SVG: every node a rectangle with its number of tokens
// and the beginning of its text, coloured by the work items that read its keys, so that the picture
// of the tree is a picture of the plan. Tooltips are the SVG's own; there is no script and no link.
// Texts may be any bytes. What is drawn, and where, is in picture_layout.hpp.

#include "files.hpp"
#include "picture_layout.hpp"
#include "text.hpp"

#include <fasttree/plan/svg_text.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace fasttree::examples {

/// Writes the parts of one picture.
class PictureWriter {
 public:
  PictureWriter(std::ostream& stream, TreePicture const& picture)
      : stream_(stream), picture_(picture), layout_(picture) {}

  void write() {
    write_head();
    int left_out = 0;
    for (std::size_t i = 0; i < picture_.nodes.size(); ++i) left_out += write_node(i) ? 0 : 1;
    write_requests();
    write_legend();
    if (left_out > 0) {
      stream_ << "<!-- " << left_out << " nodes too small to be seen are left out -->\n";
    }
    stream_ << "</svg>\n";
  }

 private:
  static std::string px(double value) { return svg_number(value); }

  static std::string title(std::string_view text) {
    return text.empty() ? std::string() : "<title>" + escape_xml(text) + "</title>";
  }

  void write_text(double x, double y, char const* style, std::string_view text) {
    stream_ << "<text x=\"" << px(x) << "\" y=\"" << px(y) << "\" class=\"" << style << "\">"
            << escape_xml(text) << "</text>\n";
  }

  /// `text` on one line of `width` pixels at a font of `size` pixels.
  static std::string fit(std::string_view text, double width, double size) {
    return excerpt(text, letters_in(width, size) - 1);
  }

  void write_head() {
    auto const width = px(std::ceil(layout_.width())), height = px(std::ceil(layout_.height()));
    stream_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\""
            << height << "\" viewBox=\"0 0 " << width << ' ' << height << "\" role=\"img\">"
            << title(picture_.title)
            << "\n<style>\n"
               "text { font-family: 'Inter', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif;"
               " fill: #1f2933; }\n"
               ".title { font-size: 20px; font-weight: 600; }\n"
               ".subtitle { font-size: 13px; fill: #3e4c59; }\n"
               ".caption { font-size: 11px; fill: #7b8794; }\n"
               ".legend { font-size: 12px; }\n"
               ".count { font-size: 10px; font-weight: 600; fill: #3e4c59; }\n"
               ".label { font-size: 11px; }\n"
               "text.count, text.label { pointer-events: none; }\n"
               ".patch:hover { filter: brightness(0.93); }\n"
               "</style>\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    double y = PictureLayout::margin + 16;
    write_text(PictureLayout::margin, y, "title", picture_.title);
    y += 22;
    if (!picture_.subtitle.empty()) {
      write_text(PictureLayout::margin, y, "subtitle",
                 fit(picture_.subtitle, layout_.plot_width(), 13));
      y += 19;
    }
    for (std::string const& line : layout_.caption()) {
      write_text(PictureLayout::margin, y, "caption", line);
      y += 16;
    }
    stream_ << "<rect x=\"" << px(PictureLayout::margin) << "\" y=\"" << px(layout_.top())
            << "\" width=\"" << px(layout_.plot_width()) << "\" height=\""
            << px(layout_.plot_height()) << "\" fill=\"#f7f8fa\" rx=\"3\"/>\n";
    if (picture_.requests == 0) {
      write_text(PictureLayout::margin + 14, layout_.top() + 25, "subtitle", "no requests");
    }
  }

  void write_rectangle(double x, double y, double width, double height, int colour,
                       std::string_view tooltip) {
    stream_ << "<rect class=\"patch\" x=\"" << px(x) << "\" y=\"" << px(y) << "\" width=\""
            << px(width) << "\" height=\"" << px(height) << "\" fill=\"" << picture_colour(colour)
            << (tooltip.empty() ? "\"/>\n" : "\">");
    if (!tooltip.empty()) stream_ << title(tooltip) << "</rect>\n";
  }

  /// Whether node `i` is large enough to be seen. White gaps part it from its neighbours.
  bool write_node(std::size_t i) {
    PictureNode const& node = picture_.nodes[i];
    double const whole_width = layout_.column() * (node.end_request - node.begin_request);
    double const whole_height = layout_.node_height(i);
    if (whole_width < 0.05 || whole_height < 0.05) return false;
    double const gap_x = std::min(1.0, 0.2 * layout_.column());
    double const gap_y = std::min(1.5, 0.15 * whole_height);
    double const x = layout_.x(node.begin_request), y = layout_.y(i);
    double const width = whole_width - gap_x, height = whole_height - gap_y;
    write_rectangle(x, y, width, height, node.colour, node.tooltip);
    double const per_token = node.length > 0 ? height / node.length : 0;
    for (PicturePatch const& patch : node.patches) {
      double const left = layout_.x(patch.begin_request);
      double const right = layout_.x(patch.end_request) - gap_x;
      double const patch_height = per_token * (patch.end_token - patch.begin_token);
      if (right - left < 0.05 || patch_height < 0.05) continue;
      // A hairline shows where another item takes over the keys below.
      double const seam = patch.end_token < node.length ? std::min(0.75, 0.2 * patch_height) : 0;
      write_rectangle(left, y + per_token * patch.begin_token, right - left, patch_height - seam,
                      patch.colour, patch.tooltip.empty() ? node.tooltip : patch.tooltip);
    }
    // Words stay above the first seam if they have room there.
    bool const seam = !node.patches.empty() && node.patches[0].begin_token == 0;
    double const above = seam ? per_token * node.patches[0].end_token : height;
    write_label(node, x, y, width, std::max(above, std::min(height, 34.0)));
    return true;
  }

  /// Writes on a node, along its height where it is too narrow for words. The inner svg cuts off
  /// what a wide font would write past its edge.
  void write_label(PictureNode const& node, double x, double y, double width, double height) {
    if (width < 12 || height < PictureLayout::line) return;
    stream_ << "<svg x=\"" << px(x) << "\" y=\"" << px(y) << "\" width=\"" << px(width)
            << "\" height=\"" << px(height) << "\">\n";
    if (width >= 84 || width >= height) {
      write_lines(node, width, height);
    } else if (height < 72) {
      write_lines(node, width, std::min(height, 20.0));
    } else {
      stream_ << "<g transform=\"translate(" << px(width) << " 0) rotate(90)\">\n";
      write_lines(node, height, width);
      stream_ << "</g>\n";
    }
    stream_ << "</svg>\n";
  }

  /// The number of tokens, then as much of the excerpt as fits; both on one line if there is but
  /// one, the number alone if that is short.
  void write_lines(PictureNode const& node, double width, double height) {
    constexpr double padding = 5, font = 11;
    double const room = width - 2 * padding, line = PictureLayout::line;
    auto const lines = std::max(1, static_cast<int>((height - 6) / line));
    double const first = lines > 1 ? line : std::min(line, height / 2 + 4);
    std::string const number = group_thousands(node.length);
    std::string count = number + (node.length == 1 ? " token" : " tokens");
    auto const pixels = [](std::string_view text) {
      return 7.0 * static_cast<double>(text.size());
    };
    if (lines == 1) {
      std::string const label = fit(node.label, room, font);
      if (label.size() >= 8 && room < 220) return write_text(padding, first, "label", label);
    }
    if (pixels(count) > room) count = number;
    double const narrow = pixels(count) > room ? 2 : padding;
    if (pixels(count) > width - 2 * narrow) return;
    write_text(narrow, first, "count", count);
    if (lines == 1 && room < 220) return;
    double const indent = lines == 1 ? pixels(count) + 6 : 0;
    double const begin = lines == 1 ? first : first + line;
    int const rows = lines == 1 ? 1 : std::min(6, lines - 1);
    auto const text = wrap_text(node.label, letters_in(room - indent, font), rows);
    for (std::size_t row = 0; row < text.size(); ++row) {
      write_text(padding + indent, begin + line * static_cast<double>(row), "label", text[row]);
    }
  }

  /// A dot for every request, under the last node of its path.
  void write_requests() {
    if (layout_.column() < 3) return;
    std::vector<double> bottom(static_cast<std::size_t>(picture_.requests), 0);
    for (std::size_t i = 0; i < picture_.nodes.size(); ++i) {
      PictureNode const& node = picture_.nodes[i];
      double const end = layout_.y(i) + layout_.node_height(i);
      for (int request = node.begin_request; request < node.end_request; ++request) {
        auto& deepest = bottom[request];
        deepest = std::max(deepest, end);
      }
    }
    double const radius = std::min(3.0, 0.3 * layout_.column());
    stream_ << "<g fill=\"#52606d\">\n";
    for (int request = 0; request < picture_.requests; ++request) {
      double const y = std::max(bottom[request], layout_.top());
      stream_ << "<circle cx=\"" << px(layout_.x(request) + layout_.column() / 2) << "\" cy=\""
              << px(y + 5) << "\" r=\"" << px(radius) << "\"/>\n";
    }
    stream_ << "</g>\n";
  }

  void write_legend() {
    std::size_t const lines = layout_.legend_lines();
    for (std::size_t i = 0; i < lines; ++i) {
      PictureLegend const& entry = picture_.legend[i];
      double const x = layout_.legend_x(i), y = layout_.legend_y(i);
      stream_ << "<rect x=\"" << px(x) << "\" y=\"" << px(y - 10) << "\" width=\"13\" height=\"13\""
              << " rx=\"2\" fill=\"" << picture_colour(entry.colour) << "\"/>\n";
      write_text(x + 20, y + 1, "legend", fit(entry.text, layout_.legend_width() - 28, 11));
    }
    if (lines < picture_.legend.size()) {
      write_text(layout_.legend_x(lines), layout_.legend_y(lines) + 1, "caption",
                 "and " + std::to_string(picture_.legend.size() - lines) + " more");
    }
  }

  std::ostream& stream_;
  TreePicture const& picture_;
  PictureLayout layout_;
};

/// Writes `picture` as an SVG of 876 to 1696 pixels width, readable from one request to thousands;
/// what would be smaller than a twentieth of a pixel is left out. Throws fasttree::Error, before
/// anything is written, for a node or patch that does not lie where it must.
/// O(nodes + patches + requests * depth).
inline void write_tree_picture(std::ostream& stream, TreePicture const& picture) {
  PictureWriter(stream, picture).write();
}

/// Writes `picture` to the file `path`, whole or not at all; errors as above and of write_file.
inline void write_tree_picture(std::filesystem::path const& path, TreePicture const& picture) {
  std::ostringstream text;
  write_tree_picture(text, picture);
  write_file(path, text.str());
}

}  // namespace fasttree::examples
