// SPDX-License-Identifier: Apache-2.0
// Nodes with links between them, on one Linux machine, for root:
//     bench_network NODES LATENCY_US BYTES_PER_US LOSS
// Node i is the network namespace fasttree-i, its address 10.99.0.(i + 1). What a node sends passes
// through this program, a switch in user space with a TUN device in each namespace: a packet leaves
// its node at so many bytes per microsecond, one after the other, arrives so many microseconds
// later, and is lost with the given probability. Prints "ready", and goes on until its standard
// input ends; then the namespaces are gone.

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <queue>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

void require(bool holds, std::string const& what) {
  if (!holds) throw std::runtime_error(what + ": " + std::strerror(errno));
}

void run(std::string const& command) { require(std::system(command.c_str()) == 0, command); }

std::string name_of(int node) { return "fasttree-" + std::to_string(node); }

/// A namespace with a TUN device, in which what it sends can be read and what it gets is written.
class Node {
 public:
  explicit Node(int number) : name_(name_of(number)) {
    run("ip netns add " + name_);
    int const own = open("/proc/self/ns/net", O_RDONLY);
    int const other = open(("/var/run/netns/" + name_).c_str(), O_RDONLY);
    require(own >= 0 && other >= 0 && setns(other, CLONE_NEWNET) == 0, name_);
    device_ = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    ifreq request{};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    std::strcpy(request.ifr_name, "tun0");
    require(device_ >= 0 && ioctl(device_, TUNSETIFF, &request) == 0, "TUNSETIFF");
    run("ip addr add 10.99.0." + std::to_string(number + 1) +
        "/24 dev tun0 && ip link set tun0 mtu 9000 txqueuelen 10000 up && ip link set lo up && "
        // Connections send as fast as the link, from the first message on and after idle times.
        "ip route change 10.99.0.0/24 dev tun0 src 10.99.0." +
        std::to_string(number + 1) +
        " initcwnd 2000 initrwnd 2000 && cd /proc/sys/net/ipv4 && "
        "echo reno > tcp_congestion_control && echo 0 > tcp_slow_start_after_idle && "
        "echo 4096 4194304 16777216 | tee tcp_rmem > tcp_wmem");
    require(setns(own, CLONE_NEWNET) == 0, "setns");
    close(other);
    close(own);
  }
  ~Node() {
    if (device_ >= 0) close(device_);
    if (!name_.empty() && std::system(("ip netns delete " + name_).c_str()) != 0)
      std::fprintf(stderr, "bench_network: %s is left\n", name_.c_str());
  }
  Node(Node&& other) noexcept
      : name_(std::exchange(other.name_, {})), device_(std::exchange(other.device_, -1)) {}
  Node& operator=(Node&&) = delete;

  int device() const { return device_; }

 private:
  std::string name_;
  int device_ = -1;
};

struct Packet {
  Clock::time_point due;
  std::uint64_t number;
  int to;
  std::string bytes;

  friend bool operator<(Packet const& a, Packet const& b) {  // the first due is the largest
    return a.due != b.due ? a.due > b.due : a.number > b.number;
  }
};

struct Links {
  Microseconds latency;
  double rate, loss;
};

class Switch {
 public:
  Switch(int nodes, Links const& links) : links_(links), free_(nodes) {
    for (int i = 0; i < nodes; ++i) nodes_.emplace_back(i);
  }

  void run_until_input_ends() {
    std::vector<pollfd> waited{{STDIN_FILENO, POLLIN, 0}};
    for (Node const& node : nodes_) waited.push_back({node.device(), POLLIN, 0});
    for (char byte = 0;;) {
      deliver();
      timespec const timeout = until_next();
      ppoll(waited.data(), waited.size(), on_way_.empty() ? nullptr : &timeout, nullptr);
      if (waited[0].revents != 0 && read(STDIN_FILENO, &byte, 1) <= 0) return;
      for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (waited[i + 1].revents != 0) take(static_cast<int>(i));
    }
  }

 private:
  void take(int from) {
    for (;;) {
      ssize_t const size = read(nodes_[from].device(), buffer_, sizeof(buffer_));
      if (size <= 0) return;
      bool const is_ipv4 = size >= 20 && static_cast<unsigned char>(buffer_[0]) >> 4 == 4;
      int const to = static_cast<unsigned char>(buffer_[19]) - 1;
      if (!is_ipv4 || to < 0 || to >= static_cast<int>(nodes_.size())) continue;
      Clock::time_point const begin = std::max(free_[from], Clock::now());
      free_[from] = begin + std::chrono::duration_cast<Clock::duration>(
                                Microseconds(static_cast<double>(size) / links_.rate));
      if (std::bernoulli_distribution(links_.loss)(random_)) continue;
      on_way_.push({free_[from] + std::chrono::duration_cast<Clock::duration>(links_.latency),
                    ++packets_, to, std::string(buffer_, static_cast<std::size_t>(size))});
    }
  }

  void deliver() {
    while (!on_way_.empty() && on_way_.top().due <= Clock::now()) {
      Packet const& packet = on_way_.top();
      // Where a node does not take it, it is lost, as in a network.
      [[maybe_unused]] auto const written =
          write(nodes_[packet.to].device(), packet.bytes.data(), packet.bytes.size());
      on_way_.pop();
    }
  }

  timespec until_next() const {
    if (on_way_.empty()) return {};
    auto const left = std::max(on_way_.top().due - Clock::now(), Clock::duration::zero());
    auto const nanoseconds = std::chrono::nanoseconds(left).count();
    return {nanoseconds / 1000000000, nanoseconds % 1000000000};
  }

  Links links_;
  std::vector<Node> nodes_;
  std::vector<Clock::time_point> free_;  ///< when a node may send its next packet
  std::priority_queue<Packet> on_way_;
  std::uint64_t packets_ = 0;
  std::mt19937 random_{1};
  char buffer_[65536];
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "bench_network NODES LATENCY_US BYTES_PER_US LOSS\n");
    return 2;
  }
  try {
    prctl(PR_SET_TIMERSLACK, 1000);     // nanoseconds by which a wait may be longer
    setpriority(PRIO_PROCESS, 0, -15);  // before the ranks, as a network is
    Switch network(std::atoi(argv[1]),
                   {Microseconds(std::atof(argv[2])), std::atof(argv[3]), std::atof(argv[4])});
    std::puts("ready");
    std::fflush(stdout);
    network.run_until_input_ends();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_network: %s\n", error.what());
    return 1;
  }
}
