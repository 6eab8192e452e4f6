#include "trnscout/planned_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "status_matchers.h"
#include "toy_model.h"

namespace trnscout {
namespace {

using ::testing::HasSubstr;

PlanOptions options_of(const char* topology, const char* dtype) {
  PlanOptions out;
  out.topology = find_topology(topology).value();
  out.dtype = dtype;
  return out;
}

// All that tells one plan from another.
std::string text_of(const ShardPlan& plan) {
  std::string out = absl::StrCat(plan.reason, " ", plan.degrees.cores, " ",
                                 plan.largest_batch_x_length);
  for (const PlannedBytes& part : plan.bytes_per_core.categories) {
    absl::StrAppend(&out, " ", part.bytes);
  }
  for (const std::string& note : plan.notes) absl::StrAppend(&out, " ", note);
  return out;
}

TEST(PlannedModel, AnswersEachQuestionAsAPlanOfItsOwn) {
  ToyModel toy_model = toy(1024, 3, 16, 8);
  toy_model.config.quantization.method = "fp8";
  toy_model.parameters[0].dtype = "F8_E4M3";
  const auto model = PlannedModel::of_parameters(
      toy_model.config, toy_model.plan, toy_model.parameters);
  ASSERT_THAT(model, IsOk());
  for (int round = 0; round < 2; ++round) {
    for (const char* topology : {"trn2", "trn3", "inf2"}) {
      for (const char* dtype : {"bfloat16", "float32", "float16"}) {
        const PlanOptions options = options_of(topology, dtype);
        const auto asked = model->plan(options);
        const auto alone = plan_shards(toy_model.config, toy_model.plan,
                                       toy_model.parameters, options);
        ASSERT_THAT(asked, IsOk());
        ASSERT_THAT(alone, IsOk());
        EXPECT_EQ(text_of(*asked), text_of(*alone)) << topology << dtype;
      }
    }
  }
}

TEST(PlannedModel, IsAskedByManyThreadsAtOnce) {
  const ToyModel toy_model = toy(1024, 3, 16, 8);
  const auto model = PlannedModel::of_parameters(
      toy_model.config, toy_model.plan, toy_model.parameters);
  ASSERT_THAT(model, IsOk());
  const PlanOptions options = options_of("trn2", "bfloat16");
  const std::string expected = text_of(*model->plan(options));
  std::vector<std::string> seen(8);
  std::vector<std::thread> threads;
  for (std::string& text : seen) {
    threads.emplace_back([&text, copy = *model, &options] {
      for (int i = 0; i < 50; ++i) text = text_of(*copy.plan(options));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : seen) EXPECT_EQ(text, expected);
}

TEST(PlannedModel, RefusesWhatAPlanRefuses) {
  ToyModel toy_model = toy(64, 1, 4, 4);
  EXPECT_THAT(
      PlannedModel::of_parameters(toy_model.config, toy_model.plan, {}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no parameters")));
  toy_model.parameters[0].dtype = "F4";
  const auto model = PlannedModel::of_parameters(
      toy_model.config, toy_model.plan, toy_model.parameters);
  ASSERT_THAT(model, IsOk());
  EXPECT_THAT(model->plan(options_of("trn2", "bfloat16")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("F4 has no bytes on a Neuron core")));
  EXPECT_THAT(
      model->plan(options_of("trn2", "int8")),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dtype is int8")));
  ParallelPlan unknown;
  unknown.architecture = "Homemade";
  EXPECT_THAT(
      PlannedModel::of_checkpoint(toy_model.config, unknown, Checkpoint()),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("Homemade")));
}

}  // namespace
}  // namespace trnscout
