// SPDX-License-Identifier: Apache-2.0
// main() of every test program: Kokkos around doctest, and no success without a test case.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <Kokkos_Core.hpp>
#include <cstdio>

namespace {

unsigned executed_test_cases = 0;

/// Counts test cases; doctest itself takes a program without one for a success.
struct Counter : doctest::IReporter {
  explicit Counter(doctest::ContextOptions const&) {}
  void test_run_end(doctest::TestRunStats const& run) override {
    executed_test_cases = run.numTestCasesPassingFilters;
  }
  void report_query(doctest::QueryData const&) override {}
  void test_run_start() override {}
  void test_case_start(doctest::TestCaseData const&) override {}
  void test_case_reenter(doctest::TestCaseData const&) override {}
  void test_case_end(doctest::CurrentTestCaseStats const&) override {}
  void test_case_exception(doctest::TestCaseException const&) override {}
  void subcase_start(doctest::SubcaseSignature const&) override {}
  void subcase_end() override {}
  void log_assert(doctest::AssertData const&) override {}
  void log_message(doctest::MessageData const&) override {}
  void test_case_skipped(doctest::TestCaseData const&) override {}
};

REGISTER_LISTENER("counter", 1, Counter);

}  // namespace

int main(int argc, char** argv) {
  Kokkos::ScopeGuard const kokkos(argc, argv);
  doctest::Context context(argc, argv);
  int const result = context.run();
  if (context.shouldExit()) return result;  // asked for help or a list
  if (executed_test_cases == 0) {
    std::fprintf(stderr, "no test case was executed\n");
    return 1;
  }
  return result;
}
