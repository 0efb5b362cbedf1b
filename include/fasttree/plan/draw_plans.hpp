// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plans side by side, as a picture: the bytes of each by kind, its predicted time beside the floor,
// its items and partial results; all bars of a kind on one scale. Works from tables alone, so any
// planner may have made them, for machines that are not there. Predictions, not measurements.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fasttree/plan/explain.hpp>
#include <fasttree/plan/machine_costs.hpp>
#include <fasttree/plan/plan_tables.hpp>
#include <fasttree/plan/predict.hpp>
#include <fasttree/plan/svg_text.hpp>

namespace fasttree {

/// A plan, what to call it, and the machine for which its time is predicted.
struct NamedPlan {
  std::string_view name;
  PlanTables const* tables;
  MachineCosts costs;
};

namespace detail {

/// Writes one picture. It has no background, and colours that are read on white and on black.
class PlansPicture {
 public:
  explicit PlansPicture(std::span<NamedPlan const> plans) {
    for (NamedPlan const& plan : plans) {
      rows_.push_back({plan.name, summarize(*plan.tables), predict(*plan.tables, plan.costs),
                       predict_floor(*plan.tables, plan.costs)});
      most_bytes_ = std::max(most_bytes_, rows_.back().bytes());
      most_time_ = std::max({most_time_, rows_.back().time, rows_.back().floor});
    }
  }

  std::string draw(std::string_view title, std::string_view note) {
    write_head(title, note);
    for (std::size_t i = 0; i < rows_.size(); ++i) write_row(rows_[i], row_top(i));
    write_legend(row_top(rows_.size()) + 18);
    return svg_ + "</svg>\n";
  }

 private:
  struct Kind {
    char const *name, *colour;
  };

  static constexpr std::array<Kind, 4> kinds{{{"keys read first", "#4c8dd6"},
                                              {"keys read again", "#e0914a"},
                                              {"queries and outputs", "#8b949e"},
                                              {"partial results, written and read", "#d1495b"}}};

  /// What is drawn of a plan.
  struct Row {
    std::string_view name;
    PlanSummary sum;
    double time, floor;

    std::array<std::int64_t, kinds.size()> parts() const {
      return {sum.key_bytes - sum.reread_bytes, sum.reread_bytes, sum.query_bytes,
              sum.partial_bytes};
    }
    std::int64_t bytes() const { return sum.key_bytes + sum.query_bytes + sum.partial_bytes; }
    double partials_per_query() const {
      return sum.queries > 0 ? static_cast<double>(sum.partials) / sum.queries : 0;
    }
  };

  // Pixels.
  static constexpr double width = 960, margin = 24, top = 96, row_height = 66, bar_height = 24;
  static constexpr double bytes_x = 230, bytes_width = 380, time_x = 714, time_width = 150;

  static constexpr double row_top(std::size_t row) {
    return top + static_cast<double>(row) * row_height;
  }

  static std::string mb(std::int64_t bytes) {
    return svg_number(1e-6 * static_cast<double>(bytes));
  }

  /// To a tenth: a prediction is not better than that.
  static std::string us(double time) { return svg_number(std::round(10 * time) / 10); }

  static std::string items(PlanSummary const& sum) {
    return std::to_string(sum.wide_items) + " wide, " + std::to_string(sum.narrow_items) +
           " narrow items";
  }

  /// The words for those who do not see the picture.
  static std::string describe(Row const& row) {
    std::string text = std::string(row.name) + ": " + mb(row.bytes()) + " MB (";
    for (std::size_t i = 0; i < kinds.size(); ++i)
      text += mb(row.parts()[i]) + " of " + kinds[i].name + (i + 1 < kinds.size() ? "; " : "); ");
    return text + items(row.sum) + "; " + svg_number(row.partials_per_query()) +
           " partial results per query; " + us(row.time) + " microseconds predicted, floor " +
           us(row.floor) + ".";
  }

  template <class... Parts>
  void add(Parts const&... parts) {
    ((svg_ += parts), ...);
  }

  void write_text(double x, double y, char const* style, std::string_view text) {
    add("<text x=\"", svg_number(x), "\" y=\"", svg_number(y), "\" class=\"", style, "\">",
        escape_xml(text), "</text>\n");
  }

  void write_bar(double x, double y, double length, char const* style, char const* colour) {
    add("<rect class=\"", style, "\" x=\"", svg_number(x), "\" y=\"", svg_number(y), "\" width=\"",
        svg_number(length), "\" height=\"", svg_number(bar_height), "\" fill=\"", colour, "\"/>\n");
  }

  void write_floor(double x, double y, double length) {
    add("<line class=\"floor\" x1=\"", svg_number(x), "\" y1=\"", svg_number(y), "\" x2=\"",
        svg_number(x), "\" y2=\"", svg_number(y + length), "\"/>\n");
  }

  void write_head(std::string_view title, std::string_view note) {
    auto const wide = svg_number(width), high = svg_number(row_top(rows_.size()) + 62);
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", wide, "\" height=\"", high,
        "\" viewBox=\"0 0 ", wide, " ", high, "\" role=\"img\" aria-labelledby=\"title desc\">\n",
        "<title id=\"title\">", escape_xml(title), "</title>\n<desc id=\"desc\">",
        escape_xml(note));
    for (Row const& row : rows_) add("\n", escape_xml(describe(row)));
    add("</desc>\n<style>\n"
        "text { font: 12px Helvetica, Arial, sans-serif; fill: #6e7781; }\n"
        ".title { font-size: 18px; font-weight: 600; }\n"
        ".name, .value { font-size: 13px; font-weight: 600; }\n"
        ".small { font-size: 11px; }\n"
        ".floor { stroke: #8250df; stroke-width: 2; stroke-dasharray: 4 2; }\n"
        "</style>\n");
    write_text(margin, 34, "title", title);
    write_text(margin, 54, "note", note);
    if (rows_.empty()) return write_text(margin, top - 12, "note", "no plans");
    write_text(bytes_x, top - 12, "name", "bytes of a call, predicted");
    write_text(time_x, top - 12, "name", "time of a call, predicted");
  }

  void write_row(Row const& row, double y) {
    add("<g>\n<title>", escape_xml(describe(row)), "</title>\n");
    // The inner svg cuts off what a long name would write into the bars.
    add("<svg x=\"", svg_number(margin), "\" y=\"", svg_number(y), "\" width=\"",
        svg_number(bytes_x - margin - 10), "\" height=\"", svg_number(row_height), "\">\n");
    write_text(0, 17, "name", row.name);
    write_text(0, 34, "small", items(row.sum));
    write_text(0, 49, "small", svg_number(row.partials_per_query()) + " partial results per query");
    add("</svg>\n");
    write_bytes(row, y);
    write_time(row, y);
    add("</g>\n");
  }

  void write_bytes(Row const& row, double y) {
    auto const place = [&](std::int64_t bytes) {
      double const all = static_cast<double>(std::max<std::int64_t>(most_bytes_, 1));
      return bytes_width * static_cast<double>(bytes) / all;
    };
    auto const parts = row.parts();
    std::int64_t before = 0;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      write_bar(bytes_x + place(before), y, place(parts[i]), "bytes", kinds[i].colour);
      before += parts[i];
    }
    write_text(bytes_x + place(before) + 8, y + 17, "value", mb(before) + " MB");
    write_text(bytes_x, y + bar_height + 16, "small",
               "keys " + mb(parts[0]) + ", again " + mb(parts[1]) + ", queries and outputs " +
                   mb(parts[2]) + ", partial results " + mb(parts[3]));
  }

  void write_time(Row const& row, double y) {
    double const scale = most_time_ > 0 ? time_width / most_time_ : 0;
    write_bar(time_x, y, scale * row.time, "time", "#5f9e6e");
    write_floor(time_x + scale * row.floor, y - 4, bar_height + 8);
    write_text(time_x + scale * std::max(row.time, row.floor) + 8, y + 17, "value",
               us(row.time) + " \u00b5s");
    write_text(time_x, y + bar_height + 16, "small", "floor " + us(row.floor) + " \u00b5s");
  }

  void write_legend(double y) {
    double x = margin;
    for (Kind const& kind : kinds) {
      add("<rect x=\"", svg_number(x), "\" y=\"", svg_number(y - 10),
          "\" width=\"12\" height=\"12\" fill=\"", kind.colour, "\"/>\n");
      write_text(x + 18, y, "small", kind.name);
      x += 40 + 6 * static_cast<double>(std::string_view(kind.name).size());
    }
    write_floor(x + 6, y - 11, 14);
    write_text(x + 18, y, "small", "floor: no plan takes less");
    write_text(margin, y + 22, "small",
               "Bytes are counted from the plans, times predicted from the costs of the machine; "
               "nothing here is measured.");
  }

  std::vector<Row> rows_;
  std::int64_t most_bytes_ = 0;
  double most_time_ = 0;
  std::string svg_;
};

}  // namespace detail

/// An SVG of the plans, one below the other: bytes by kind, predicted time, floor.
///
/// \param plans  best of the same tree, for the same machine
/// \param title  of the picture; any text, as are the names
/// \param note   the line below: what tree, what machine
///
/// Time: linear in the items of the plans and their ranges.
inline std::string draw_plans(std::span<NamedPlan const> plans, std::string_view title,
                              std::string_view note) {
  return detail::PlansPicture(plans).draw(title, note);
}

}  // namespace fasttree
