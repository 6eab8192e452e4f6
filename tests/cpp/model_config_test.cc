#include "trnscout/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "status_matchers.h"
#include "temp_dir.h"

namespace trnscout {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

constexpr char kLlama[] =
    R"({"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,)"
    R"("num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256)";

// A Llama-3.1-8B with `more` fields behind its own.
std::string llama(const std::string& more = "") {
  return absl::StrCat(kLlama, more.empty() ? "" : ",", more, "}");
}

absl::StatusOr<ModelConfig> parse(const std::string& text) {
  return ModelConfig::parse(text, "config.json");
}

ModelConfig parsed(const std::string& text) {
  auto config = parse(text);
  EXPECT_THAT(config, IsOk());
  return config.ok() ? *std::move(config) : ModelConfig();
}

std::int64_t cache_bytes(const ModelConfig& config, std::int64_t length) {
  const auto bytes = config.kv_bytes(1, length, 2);
  EXPECT_THAT(bytes, IsOk());
  return bytes.ok() ? bytes->total() : -1;
}

TEST(ModelConfig, ReadsWhatStandsThere) {
  const ModelConfig config = parsed(llama(
      R"("architectures":["LlamaForCausalLM"],"torch_dtype":"bfloat16")"));
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.text_model_type, "llama");
  EXPECT_EQ(config.text_path, "");
  EXPECT_THAT(config.architectures, ElementsAre("LlamaForCausalLM"));
  EXPECT_EQ(config.dtype, "bfloat16");
  EXPECT_EQ(config.hidden, 4096);
  EXPECT_EQ(config.layers, 32);
  EXPECT_EQ(config.vocab, 128256);
  EXPECT_EQ(config.q_heads, 32);
  EXPECT_EQ(config.kv_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.experts, 0);
  EXPECT_FALSE(config.vision.has_value());
  EXPECT_EQ(config.quantization, Quantization());
  EXPECT_THAT(config.warnings, IsEmpty());
}

TEST(ModelConfig, TakesTheFamilysDefaultForWhatIsLeftOut) {
  const ModelConfig config = parsed(R"({"model_type":"llama"})");
  EXPECT_EQ(config.hidden, 4096);
  EXPECT_EQ(config.intermediate, 11008);
  EXPECT_EQ(config.max_positions, 2048);
  EXPECT_EQ(config.tie_word_embeddings, false);
  EXPECT_EQ(parsed(R"({"model_type":"gemma2"})").tie_word_embeddings, true);
}

TEST(ModelConfig, GivesOneMeaningToTheNamesOfFamilies) {
  const ModelConfig gpt2 =
      parsed(R"({"model_type":"gpt2","n_embd":1024,"n_layer":24,"n_head":16,)"
             R"("n_positions":512})");
  EXPECT_EQ(gpt2.hidden, 1024);
  EXPECT_EQ(gpt2.layers, 24);
  EXPECT_EQ(gpt2.q_heads, 16);
  EXPECT_EQ(gpt2.kv_heads, 16);
  EXPECT_EQ(gpt2.head_dim, 64);
  EXPECT_EQ(gpt2.max_positions, 512);
  const ModelConfig deepseek =
      parsed(R"({"model_type":"deepseek_v3","n_routed_experts":64,)"
             R"("num_experts_per_tok":4,"n_shared_experts":2})");
  EXPECT_EQ(deepseek.experts, 64);
  EXPECT_EQ(deepseek.experts_per_token, 4);
  EXPECT_EQ(deepseek.shared_experts, 2);
  EXPECT_EQ(deepseek.moe_intermediate, 2048);
}

TEST(ModelConfig, FollowsMultiQuery) {
  EXPECT_EQ(parsed(R"({"model_type":"gpt_bigcode"})").kv_heads, 1);
  EXPECT_EQ(
      parsed(R"({"model_type":"gpt_bigcode","multi_query":false})").kv_heads,
      12);
  EXPECT_EQ(parsed(R"({"model_type":"falcon"})").kv_heads, 1);
}

// C019, Qwen3-4B: head_dim is not hidden_size / heads, and null derives it.
TEST(ModelConfig, TakesHeadDimAsItIsGiven) {
  const std::string qwen3 =
      R"({"model_type":"qwen3","hidden_size":2560,"num_hidden_layers":36,)"
      R"("num_attention_heads":32,"num_key_value_heads":8,"head_dim":)";
  const ModelConfig config = parsed(qwen3 + "128}");
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.q_heads * config.head_dim, 4096);  // rows of q_proj
  EXPECT_EQ(config.hidden, 2560);                     // and its columns
  EXPECT_EQ(*config.kv_bytes_per_token(2), 147'456);
  const ModelConfig derived = parsed(qwen3 + "null}");
  EXPECT_EQ(derived.head_dim, 80);
  EXPECT_EQ(*derived.kv_bytes_per_token(2), 92'160);
}

TEST(ModelConfig, CountsTheCacheOfKnownModels) {
  EXPECT_EQ(*parsed(llama()).kv_bytes_per_token(2), 131'072);
  EXPECT_EQ(cache_bytes(parsed(llama()), 1024), 134'217'728);
  const ModelConfig large = parsed(
      R"({"model_type":"llama","hidden_size":8192,"num_hidden_layers":80,)"
      R"("num_attention_heads":64,"num_key_value_heads":8})");
  EXPECT_EQ(*large.kv_bytes_per_token(2), 327'680);
  EXPECT_EQ(parsed(R"({"model_type":"llama"})").kv_heads, 32);
}

// C017: the language model's config is nested.
TEST(ModelConfig, FindsTheTextWhereItIsNested) {
  const ModelConfig config = parsed(
      R"({"model_type":"gemma3","architectures":null,"text_config":{)"
      R"("hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,)"
      R"("num_hidden_layers":2},"vision_config":{"hidden_size":32}})");
  EXPECT_EQ(config.text_path, "text_config");
  EXPECT_EQ(config.text_model_type, "gemma3_text");
  EXPECT_EQ(config.q_heads, 4);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.layers, 2);
  EXPECT_THAT(config.architectures, IsEmpty());
  ASSERT_TRUE(config.vision.has_value());
  EXPECT_EQ(config.vision->hidden, 32);
  EXPECT_EQ(config.vision->layers, 12);
  EXPECT_EQ(config.vision->image_tokens, 256);
}

// C017: doubly nested.
TEST(ModelConfig, FindsTheTextTwoLevelsDown) {
  const ModelConfig config = parsed(
      R"({"model_type":"qwen2_5_omni","architectures":null,)"
      R"("thinker_config":{"text_config":{)"
      R"("hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,)"
      R"("num_hidden_layers":2}}})");
  EXPECT_EQ(config.text_path, "thinker_config.text_config");
  EXPECT_EQ(config.hidden, 64);
  EXPECT_EQ(config.q_heads, 4);
}

TEST(ModelConfig, TakesTheTextFromTheTopInOlderFiles) {
  const ModelConfig config = parsed(
      R"({"model_type":"qwen2_5_vl","hidden_size":3584,)"
      R"("num_attention_heads":28,"num_key_value_heads":4,)"
      R"("num_hidden_layers":28,"vocab_size":152064,"vision_config":{}})");
  EXPECT_EQ(config.text_path, "");
  EXPECT_EQ(config.hidden, 3584);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_TRUE(config.vision.has_value());
}

TEST(ModelConfig, LetsANestedTypeChooseTheFamily) {
  const ModelConfig config = parsed(
      R"({"model_type":"llava","text_config":{"model_type":"mistral"}})");
  EXPECT_EQ(config.text_model_type, "mistral");
  EXPECT_EQ(config.kv_heads, 8);
}

TEST(ModelConfig, ReadsFamiliesItDoesNotKnowByTheUsualNames) {
  const ModelConfig config =
      parsed(R"({"model_type":"newest","llm_config":{"n_embd":64,"n_layer":2,)"
             R"("n_head":4,"vocab_size":100}})");
  EXPECT_EQ(config.text_path, "llm_config");
  EXPECT_EQ(config.hidden, 64);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_FALSE(config.tie_word_embeddings.has_value());
  EXPECT_THAT(config.warnings,
              ElementsAre(HasSubstr("newest is not in Transformers")));
  EXPECT_THAT(parse("{}"),
              StatusIs(kInvalid, HasSubstr("hidden_size or embed_dim")));
}

TEST(ModelConfig, TiesAsTheFileSaysWhereverItSaysIt) {
  const std::string nested = R"("text_config":{"tie_word_embeddings":false}})";
  EXPECT_EQ(parsed(llama(R"("tie_word_embeddings":true)")).tie_word_embeddings,
            true);
  const ModelConfig only_nested = parsed(R"({"model_type":"gemma3",)" + nested);
  EXPECT_EQ(only_nested.tie_word_embeddings, false);
  EXPECT_THAT(only_nested.warnings,
              ElementsAre(HasSubstr("stands only in text_config")));
  const ModelConfig both =
      parsed(R"({"model_type":"gemma3","tie_word_embeddings":true,)" + nested);
  EXPECT_EQ(both.tie_word_embeddings, true);
  EXPECT_EQ(both.text_tie_word_embeddings, false);
}

// DeepSeek-V4: one entry a block, values that are the keys of the window.
TEST(ModelConfig, MakesCountsThatFollowFromOthers) {
  EXPECT_EQ(parsed(R"({"model_type":"cpmant","dim_head":24})").head_dim, 24);
  EXPECT_EQ(parsed(R"({"model_type":"hrm_text","num_hidden_layers":4,)"
                   R"("H_cycles":2,"L_cycles":1})")
                .layers,
            16);
  EXPECT_EQ(parsed(R"({"model_type":"hrm_text","num_hidden_layers":16,)"
                   R"("num_layers_per_stack":4})")
                .layers,
            16);
  EXPECT_EQ(parsed(R"({"model_type":"longcat_flash","num_layers":5})").layers,
            10);
  EXPECT_EQ(parsed(R"({"model_type":"longcat_flash","num_layers":5,)"
                   R"("num_hidden_layers":7})")
                .layers,
            6);
  EXPECT_EQ(parsed(R"({"model_type":"jetmoe","num_attention_heads":9,)"
                   R"("num_key_value_heads":4,"num_experts_per_tok":3})")
                .q_heads,
            12);
}

TEST(Quantization, SaysWhatIsStored) {
  const auto of = [](const std::string& quantization) {
    return parsed(llama(R"("quantization_config":)" + quantization))
        .quantization;
  };
  const Quantization mxfp4 =
      of(R"({"quant_method":"mxfp4","modules_to_not_convert":["lm_head"]})");
  EXPECT_EQ(mxfp4.bits, 4);
  EXPECT_THAT(mxfp4.kept_modules, ElementsAre("lm_head"));
  EXPECT_TRUE(mxfp4.dequantized_on("v3"));
  EXPECT_FALSE(mxfp4.dequantized_on("v4"));
  EXPECT_EQ(of(R"({"quant_method":"gptq","bits":3})").bits, 3);
  EXPECT_EQ(of(R"({"quant_method":"awq","w_bit":4})").bits, 4);
  EXPECT_EQ(of(R"({"quant_method":"fp8"})").bits, 8);
  EXPECT_TRUE(of(R"({"quant_method":"gptq","bits":4})").dequantized_on("v4"));
  EXPECT_EQ(of(R"({"load_in_4bit":true})").method, "bitsandbytes");
  EXPECT_EQ(of(R"({"quant_method":"compressed-tensors","config_groups":{)"
               R"("group_0":{"weights":{"num_bits":8}},)"
               R"("group_1":{"weights":{"num_bits":4}}}})")
                .bits,
            4);
  EXPECT_EQ(of("null"), Quantization());
  EXPECT_FALSE(Quantization().dequantized_on("v3"));
}

TEST(Quantization, IsRefusedWithoutAMethod) {
  EXPECT_THAT(parse(llama(R"("quantization_config":{})")),
              StatusIs(kInvalid, HasSubstr("quant_method is missing")));
  EXPECT_THAT(parse(llama(R"("quantization_config":{"quant_method":"x",)"
                          R"("config_groups":{"a":{"weights":)"
                          R"({"num_bits":0}}}})")),
              StatusIs(kInvalid, HasSubstr("config_groups: num_bits is 0; it "
                                           "must be a whole number")));
  EXPECT_THAT(parse(llama(R"("quantization_config":4)")),
              StatusIs(kInvalid, HasSubstr("quantization_config is 4; it "
                                           "must be an object")));
}

// C018: what Python writes and reads, and strict parsers refuse.
TEST(ModelConfig, ReadsJsonAsPythonDoes) {
  const ModelConfig config = parsed(
      "{\"model_type\":\"llama\",\"time_step_limit\":[0.0, Infinity,\n"
      "-Infinity , NaN],\"note\":\"to Infinity and NaN\",\"rope_theta\":1e6,"
      "\"vocab_size\":32000.0,\"hidden_size\":1e3,"
      "\"num_attention_heads\":10}");
  EXPECT_EQ(config.vocab, 32000);
  EXPECT_EQ(config.hidden, 1000);
  EXPECT_THAT(
      parse(R"({"model_type":"llama","vocab_size":NaN})"),
      StatusIs(kInvalid, StartsWith("config.json: vocab_size is NaN;")));
  EXPECT_THAT(
      parse(R"({"model_type":"llama","hidden_size":-Infinity})"),
      StatusIs(kInvalid, HasSubstr("hidden_size is -Infinity; it must be")));
  EXPECT_THAT(parse(R"({"model_type":"Infinity","text_config":3})"),
              StatusIs(kInvalid, HasSubstr("text_config is 3")));
}

TEST(ModelConfig, WarnsOfKeysThatStandTwice) {
  const ModelConfig config =
      parsed(llama(R"("vocab_size":7,"unused":1,"unused":2)"));
  EXPECT_EQ(config.vocab, 7);
  EXPECT_THAT(config.warnings,
              ElementsAre(HasSubstr("unused stands twice"),
                          HasSubstr("vocab_size stands twice; the last one "
                                    "counts")));
}

// C018: numbers that are spelled otherwise are the same numbers.
TEST(ModelConfig, ReadsWholeNumbersHoweverTheyAreSpelled) {
  const ModelConfig plain =
      parsed(R"({"model_type":"llama","rope_theta":1000000,)"
             R"("vocab_size":32000,"max_position_embeddings":1000000})");
  EXPECT_EQ(parsed(R"({"model_type":"llama","rope_theta":1e6,)"
                   R"("vocab_size":32000.0,"max_position_embeddings":1e6})"),
            plain);
  EXPECT_EQ(plain.max_positions, 1'000'000);
}

// C018: a string that contains the word survives as it is.
TEST(ModelConfig, LeavesTheWordInfinityInStringsAlone) {
  const ModelConfig config =
      parsed(R"({"model_type":"llama","architectures":["InfinityForCausalLM", )"
             R"("to Infinity, -Infinity and NaN"]})");
  EXPECT_THAT(
      config.architectures,
      ElementsAre("InfinityForCausalLM", "to Infinity, -Infinity and NaN"));
}

// C018: a trailing comma and a byte order mark, as Python's json refuses them.
TEST(ModelConfig, RefusesWhatIsNotJsonWithItsPlace) {
  EXPECT_THAT(parse("{\n  \"hidden_size\": 4,\n}"),
              StatusIs(kInvalid, AllOf(HasSubstr("not JSON"),
                                       HasSubstr("line 3, column 1"))));
  EXPECT_THAT(parse("\xEF\xBB\xBF{}"),
              StatusIs(kInvalid, HasSubstr("byte order mark")));
  EXPECT_THAT(parse("[]"), StatusIs(kInvalid, HasSubstr("not an object")));
  EXPECT_THAT(parse("3"), StatusIs(kInvalid, HasSubstr("the whole is 3")));
  EXPECT_THAT(parse(""), StatusIs(kInvalid, HasSubstr("not JSON")));
  const std::string deep(100'000, '[');
  EXPECT_THAT(parse("{\"a\":" + deep),
              StatusIs(kInvalid, HasSubstr("deeper than the limit of 64")));
}

TEST(LayerTypes, AreRefusedWhereTheyDoNotFit) {
  const std::string qwen =
      R"({"model_type":"qwen3","num_hidden_layers":2,"layer_types":)";
  EXPECT_THAT(parse(qwen + R"(["full_attention"]})"),
              StatusIs(kInvalid,
                       "config.json: layer_types has 1 entry; "
                       "num_hidden_layers is 2"));
  EXPECT_THAT(parse(qwen + R"(["full_attention","round"]})"),
              StatusIs(kInvalid, HasSubstr("layer_types[1] is \"round\"")));
  EXPECT_THAT(parse(qwen + R"("full_attention"})"),
              StatusIs(kInvalid, HasSubstr("must be a list of layer types")));
  EXPECT_THAT(parse(R"({"model_type":"gemma2","num_hidden_layers":2,)"
                    R"("sliding_window":null})"),
              StatusIs(kInvalid,
                       "config.json: layer 0: it is of type "
                       "sliding_attention; sliding_window is missing"));
  EXPECT_THAT(parse(R"({"model_type":"gemma3_text",)"
                    R"("sliding_window_pattern":0})"),
              StatusIs(kInvalid, HasSubstr("sliding_window_pattern is 0")));
}

TEST(ModelConfig, NamesTheNestedPartInItsErrors) {
  EXPECT_THAT(
      parse(R"({"model_type":"gemma3","text_config":{"hidden_size":0}})"),
      StatusIs(kInvalid, StartsWith("config.json: text_config: hidden_size is "
                                    "0;")));
}

TEST(ModelConfig, RefusesFamiliesWithoutOneLanguageModel) {
  EXPECT_THAT(parse(R"({"model_type":"blt"})"),
              StatusIs(absl::StatusCode::kUnimplemented,
                       "config.json: BltConfig has no hidden size and layers "
                       "of one language model"));
}

TEST(ModelConfigOpen, ReadsTheFileInADirectory) {
  const TempDir dir;
  dir.write("config.json", llama());
  const auto config = ModelConfig::open(dir.path());
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(*config, parsed(llama()));
}

TEST(ModelConfigOpen, RefusesWhatCannotBeReadAsAConfig) {
  const TempDir dir;
  const std::string path = (dir.path() / "config.json").string();
  EXPECT_THAT(ModelConfig::open(dir.path()),
              StatusIs(absl::StatusCode::kNotFound, StartsWith(path + ": ")));
  dir.write("config.json", "{");
  EXPECT_THAT(ModelConfig::open(dir.path()),
              StatusIs(kInvalid, StartsWith(path + ": not JSON")));
  dir.write("config.json", std::string(ModelConfig::kMaxFileBytes + 1, ' '));
  EXPECT_THAT(ModelConfig::open(dir.path()),
              StatusIs(kInvalid, HasSubstr("past the limit of 16777216")));
  const TempDir other;
  std::filesystem::create_directory(other.path() / "config.json");
  EXPECT_THAT(ModelConfig::open(other.path()),
              StatusIs(kInvalid, HasSubstr("config.json: ")));
}

// Every cut and every changed byte of a config either parses or is refused.
TEST(ModelConfig, SurvivesDamagedTexts) {
  const std::string text =
      llama(R"("per_layer_config":{"1":{"head_dim":64}},"layer_types":null,)"
            R"("quantization_config":{"quant_method":"gptq","bits":4})");
  for (std::size_t i = 0; i < text.size(); ++i) {
    (void)parse(text.substr(0, i));
    for (const char byte : {'\0', '"', '{', '}', '[', '9', '-', '\x7f', 'N'}) {
      std::string changed = text;
      changed[i] = byte;
      const auto config = parse(changed);
      if (config.ok()) {
        EXPECT_LE(config->layers, ModelConfig::kMaxLayers);
      }
    }
  }
}

}  // namespace
}  // namespace trnscout
