// Runs a fuzz target where libFuzzer is not at hand: mutates the seeds, keeps
// what brings a new kind of answer, and counts.
//
//   X_fuzz [--inputs=N] [--seed=S] [--failures=DIR]   run N inputs
//   X_fuzz FILE...                                    run these inputs again
//   X_fuzz --write-seeds=DIR                          a corpus for libFuzzer

#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "fuzz_target.h"
#include "mutation.h"
#include "outcome.h"

// A size that came from an input must not become an allocation: the most that
// any input here needs is far below these limits.
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=256:hard_rss_limit_mb=2048:"
         "quarantine_size_mb=32";
}

namespace trnscout {
namespace {

constexpr std::size_t kMaxInputBytes = std::size_t{1} << 18;
// Of the process's own time, so that a busy machine changes nothing. An input
// takes milliseconds.
constexpr int kMaxInputSeconds = 20;
// Of inputs that brought a new kind of answer, on either side.
constexpr std::size_t kMaxKept = 1000;
// What the child returns where no input is to blame.
constexpr int kOneSided = 3;

struct Options {
  std::int64_t inputs = 5000;
  std::uint64_t seed = 1;
  std::filesystem::path failures = ".";
  std::filesystem::path write_seeds;
  std::vector<std::string> files;
};

// The input that runs, where the parent process sees it when the child dies.
struct Shared {
  std::size_t size = 0;
  char bytes[kMaxInputBytes];
};

void run_input(const std::string& input, Shared& shared) {
  shared.size = std::min(input.size(), kMaxInputBytes);
  std::memcpy(shared.bytes, input.data(), shared.size);
  // SIGPROF ends the process, unless the next input sets the clock anew.
  const itimerval limit{{0, 0}, {kMaxInputSeconds, 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
  // A copy of its own size, so that reading past its end is noticed.
  const auto bytes = std::make_unique<std::uint8_t[]>(shared.size);
  std::memcpy(bytes.get(), shared.bytes, shared.size);
  LLVMFuzzerTestOneInput(bytes.get(), shared.size);
}

// What later inputs are made from.
struct Pool {
  std::vector<std::string> good;  // the seeds, and what was accepted
  std::vector<std::string> bad;   // what was refused

  const std::string& pick(Random& random) const {
    return bad.empty() || !random.one_in(5) ? random.of(good) : random.of(bad);
  }
  void keep(std::string input, bool accepted) {
    std::vector<std::string>& kept = accepted ? good : bad;
    if (kept.size() < kMaxKept) kept.push_back(std::move(input));
  }
};

std::string next_input(const Pool& pool, Random& random) {
  std::string out = pool.pick(random);
  const std::size_t changes = random.one_in(2) ? 1 : 2 + random.below(4);
  for (std::size_t i = 0; i < changes; ++i) {
    out = mutated(std::move(out), pool.pick(random), random);
  }
  if (out.size() > kMaxInputBytes) out.resize(kMaxInputBytes);
  return out;
}

int run_inputs(const Options& options, const char* name, Shared& shared) {
  const std::vector<std::string> seeds = seed_inputs();
  Pool pool{seeds, {}};
  absl::flat_hash_set<std::string> forms;
  Random random(options.seed);
  for (std::int64_t i = 0; i < options.inputs; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const bool is_seed = index < seeds.size();
    std::string input = is_seed ? seeds[index] : next_input(pool, random);
    const std::int64_t accepted = outcomes().accepted;
    run_input(input, shared);
    if (forms.insert(outcomes().last_form).second && !is_seed) {
      pool.keep(std::move(input), outcomes().accepted > accepted);
    }
  }
  const Outcomes& out = outcomes();
  std::printf(
      "%s: %lld inputs, %zu of them seeds, seed %llu: %lld accepted, "
      "%lld refused, %zu kinds of answers\n",
      name, static_cast<long long>(options.inputs), seeds.size(),
      static_cast<unsigned long long>(options.seed),
      static_cast<long long>(out.accepted), static_cast<long long>(out.refused),
      forms.size());
  // With all on one side, the other side's code was not tested at all.
  const std::int64_t least = options.inputs / 20;
  if (out.accepted >= least && out.refused >= least) return 0;
  std::fprintf(stderr, "%s: fewer than %lld inputs accepted or refused\n", name,
               static_cast<long long>(least));
  return kOneSided;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string out((std::istreambuf_iterator<char>(file)),
                  std::istreambuf_iterator<char>());
  require(file.good() || file.eof(), absl::StrCat("cannot read ", path));
  return out;
}

int run_files(const std::vector<std::string>& files, Shared& shared) {
  for (const std::string& path : files) {
    run_input(read_file(path), shared);
    std::printf("%s: %s\n", path.c_str(), outcomes().last_form.c_str());
  }
  return 0;
}

void write(const std::filesystem::path& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  require(static_cast<bool>(file.flush()),
          absl::StrCat("cannot write ", path.native()));
}

int write_seeds(const std::filesystem::path& dir) {
  std::filesystem::create_directories(dir);
  for (const std::string& seed : seed_inputs()) {
    write(dir / absl::StrCat(absl::Hex(hash_of(seed))), seed);
  }
  return 0;
}

// Keeps the input that ended the child and says how to run it again.
int report(int status, const Options& options, const char* program,
           const Shared& shared) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF) {
    std::fprintf(stderr, "an input took more than %d s\n", kMaxInputSeconds);
  }
  const bool blameless = WIFEXITED(status) && WEXITSTATUS(status) == kOneSided;
  if (blameless || !options.files.empty()) return 1;
  const absl::string_view input(shared.bytes, shared.size);
  const std::string stem = std::filesystem::path(program).filename();
  const std::filesystem::path path =
      options.failures /
      absl::StrCat(stem, ".", absl::Hex(hash_of(input)), ".input");
  std::filesystem::create_directories(options.failures);
  write(path, input);
  std::fprintf(stderr, "the last input is kept; run it again with\n  %s %s\n",
               program, path.c_str());
  return 1;
}

bool parse(int count, char** arguments, Options& out) {
  for (int i = 1; i < count; ++i) {
    absl::string_view text = arguments[i];
    if (absl::ConsumePrefix(&text, "--inputs=")) {
      if (!absl::SimpleAtoi(text, &out.inputs) || out.inputs < 1) return false;
    } else if (absl::ConsumePrefix(&text, "--seed=")) {
      if (!absl::SimpleAtoi(text, &out.seed)) return false;
    } else if (absl::ConsumePrefix(&text, "--failures=")) {
      out.failures = std::string(text);
    } else if (absl::ConsumePrefix(&text, "--write-seeds=")) {
      out.write_seeds = std::string(text);
    } else if (absl::ConsumePrefix(&text, "--")) {
      return false;
    } else {
      out.files.emplace_back(text);
    }
  }
  return true;
}

int run(const Options& options, const char* program) {
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "there is memory to share");
  Shared& shared = *new (memory) Shared;
  const pid_t child = ::fork();
  require(child >= 0, "there is a second process");
  if (child == 0) {
    const std::string name = std::filesystem::path(program).filename();
    std::exit(options.files.empty() ? run_inputs(options, name.c_str(), shared)
                                    : run_files(options.files, shared));
  }
  int status = 0;
  require(::waitpid(child, &status, 0) == child, "the child can be waited for");
  return report(status, options, program, shared);
}

}  // namespace
}  // namespace trnscout

int main(int count, char** arguments) {
  trnscout::Options options;
  if (!trnscout::parse(count, arguments, options)) {
    std::fprintf(stderr,
                 "usage: %s [--inputs=N] [--seed=S] [--failures=DIR] "
                 "[--write-seeds=DIR] [FILE...]\n",
                 arguments[0]);
    return 2;
  }
  if (!options.write_seeds.empty()) {
    return trnscout::write_seeds(options.write_seeds);
  }
  return trnscout::run(options, arguments[0]);
}
