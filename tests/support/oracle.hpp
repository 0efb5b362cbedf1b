// SPDX-License-Identifier: Apache-2.0
#pragma once
// What attention over a tree is, word by word: double precision, on the host, no tricks. Every
// backend is checked against this. Beside each row stand the magnitudes from which tolerance.hpp
// computes by how much float arithmetic may differ.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <fasttree/tree/prefix_tree.hpp>

namespace fasttree::test {

/// What the result of one query and head depends on.
struct RowFacts {
  int keys = 0;           ///< that the query sees
  double logit_size = 0;  ///< most that softmax_scale * sum |q k| is for one of them
  double value_size = 0;  ///< most that |v| is
};

/// Outputs (queries, query_heads, value_dim), natural log-sum-exps and facts (queries,
/// query_heads).
struct Answer {
  std::vector<double> outputs, log_sum_exps;
  std::vector<RowFacts> rows;
};

/// Slots of the keys on the path of `node`, in the order of their positions.
inline std::vector<std::int64_t> path_slots(PrefixTree const& tree, int node) {
  std::vector<std::int64_t> slots;
  for (; node != PrefixTree::no_parent; node = tree.parent(node))
    for (int i = tree.length(node); i-- > 0;) slots.push_back(tree.slot_begin(node) + i);
  std::reverse(slots.begin(), slots.end());
  return slots;
}

/// How many keys of its path query `i` of a request sees: those up to and with its own position.
inline int visible_keys(PrefixTree const& tree, Request const& request, int i) {
  return std::max(0, tree.path_length(request.node) - (request.query_length - 1 - i));
}

/// Attention of every query to the keys on its request's path.
/// \param queries  (tree.queries(), query_heads, head_dim)
/// \param keys     (tree.slots(), kv_heads, head_dim), \param values likewise
template <class Shape, class Stored>
Answer attention_oracle(PrefixTree const& tree, Shape const& shape, std::span<Stored const> queries,
                        std::span<Stored const> keys, std::span<Stored const> values) {
  Answer answer;
  for (int r = 0; r < tree.requests(); ++r) {
    Request const& request = tree.request(r);
    std::vector<std::int64_t> const slots = path_slots(tree, request.node);
    for (int i = 0; i < request.query_length; ++i) {
      for (int head = 0; head < shape.query_heads; ++head) {
        int const kv_head = head / (shape.query_heads / shape.kv_heads);
        std::int64_t const row = std::int64_t{tree.first_query(r) + i} * shape.query_heads + head;
        RowFacts facts{visible_keys(tree, request, i)};
        double largest = -std::numeric_limits<double>::infinity();
        std::vector<double> logits;
        for (int key = 0; key < facts.keys; ++key) {
          std::int64_t const at = slots[key] * shape.kv_heads + kv_head;
          double product = 0, size = 0;
          for (int d = 0; d < Shape::head_dim; ++d) {
            double const term = static_cast<double>(queries[row * Shape::head_dim + d]) *
                                static_cast<double>(keys[at * Shape::head_dim + d]);
            product += term;
            size += std::abs(term);
          }
          logits.push_back(shape.softmax_scale * product);
          largest = std::max(largest, logits.back());
          facts.logit_size = std::max(facts.logit_size, shape.softmax_scale * size);
        }
        double sum = 0;
        std::vector<double> output(Shape::value_dim, 0.0);
        for (int key = 0; key < facts.keys; ++key) {
          std::int64_t const at = slots[key] * shape.kv_heads + kv_head;
          double const weight = std::exp(logits[key] - largest);
          sum += weight;
          for (int d = 0; d < Shape::value_dim; ++d) {
            double const value = values[at * Shape::value_dim + d];
            output[d] += weight * value;
            facts.value_size = std::max(facts.value_size, std::abs(value));
          }
        }
        for (double const component : output)
          answer.outputs.push_back(facts.keys > 0 ? component / sum : 0.0);
        answer.log_sum_exps.push_back(largest + (facts.keys > 0 ? std::log(sum) : 0.0));
        answer.rows.push_back(facts);
      }
    }
  }
  return answer;
}

}  // namespace fasttree::test
