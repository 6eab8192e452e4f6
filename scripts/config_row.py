"""One config class of Transformers as a row of src/core/config_table.inc.

What the class states is read (defaults, `attribute_map`); what it does in `__post_init__` is found
by making configs and looking: older names of a field, rules for values that are left out, patterns
of layer types.
"""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

# Our name of a field, and the names that classes give it; the first one that a class has counts.
FIELDS = {
    "hidden": ["hidden_size", "embed_dim"],
    "layers": ["num_hidden_layers", "depth"],
    "q_heads": ["num_attention_heads"],
    "kv_heads": ["num_key_value_heads", "num_kv_heads"],
    "rope_dim": ["qk_rope_head_dim"],
    "nope_dim": ["qk_nope_head_dim"],
    "head_dim": ["head_dim", "dim_head"],
    "vocab": ["vocab_size"],
    "intermediate": ["intermediate_size"],
    "positions": ["max_position_embeddings"],
    "experts": ["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"],
    "experts_per_token": ["num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts"],
    "moe_intermediate": ["moe_intermediate_size", "expert_ffn_hidden_size"],
    "shared_experts": ["n_shared_experts", "num_shared_experts", "moe_num_shared_experts"],
    "shared_intermediate": ["shared_expert_intermediate_size", "shared_intermediate_size"],
    "tie": ["tie_word_embeddings"],
    "window": ["sliding_window"],
    "chunk": ["attention_chunk_size"],
    "use_window": ["use_sliding_window"],
    "window_from": ["max_window_layers"],
    "kv_rank": ["kv_lora_rank"],
    "value_dim": ["v_head_dim"],
    "index_dim": ["index_head_dim", "indexer_head_dim"],
    "window_kv_heads": ["swa_num_key_value_heads"],
    "window_head_dim": ["swa_head_dim"],
    "csa_rate": ["compress_rates.compressed_sparse_attention"],
    "hca_rate": ["compress_rates.heavily_compressed_attention"],
    "loop_from": ["loop_layer_index_start"],
    "loop_to": ["loop_layer_index_end"],
    "loop_passes": ["loop_num_passes"],
    "outer_cycles": ["H_cycles"],
    "inner_cycles": ["L_cycles"],
    "shared_kv_layers": ["num_kv_shared_layers"],
    "multi_query": ["multi_query"],
    "new_decoder": ["new_decoder_architecture"],
    "image_tokens": [
        *("mm_tokens_per_image", "image_seq_length", "image_seq_len", "num_query_tokens"),
        *("latent_query_num", "perceiver_config.resampler_n_latents"),
    ],
    "image_size": ["image_size"],
    "patch_size": ["patch_size"],
    "merge": ["spatial_merge_size"],
    "ssm_expand": ["mamba_expand", "expand"],
    "ssm_heads": ["mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads"],
    "ssm_head_dim": ["mamba_d_head", "mamba_head_dim", "mamba_headdim"],
    "ssm_state": ["mamba_d_state", "ssm_state_size", "state_size"],
    "ssm_groups": ["mamba_n_groups", "n_groups", "mamba_ngroups"],
    "ssm_kernel": ["mamba_d_conv", "conv_kernel"],
    "ssm_inner": ["mamba_d_ssm"],
    "delta_v_heads": ["linear_num_value_heads", "linear_num_heads"],
    "delta_k_heads": ["linear_num_key_heads", "linear_num_heads"],
    "delta_k_dim": ["linear_key_head_dim", "linear_head_dim"],
    "delta_v_dim": ["linear_value_head_dim", "linear_head_dim"],
    "delta_kernel": ["linear_conv_kernel_dim"],
    "conv_kernel": ["conv_L_cache", "conv_kernel_size"],
    "lru_width": ["lru_width"],
    "lru_kernel": ["conv1d_width"],
    "cca_first": ["cca_time0"],
    "cca_second": ["cca_time1"],
    "ple_streams": ["hc_count"],
    "ple_kernel": ["ple_conv_kernel_size"],
    "ple_ngram": ["ngram_size"],
}

# Names that only the code of `__post_init__` knows. Each is tried on every class.
OLDER_NAMES = {
    "hidden": ["n_embed", "n_embd", "d_model", "dim"],
    "layers": ["n_layer", "n_layers", "num_layers"],
    "q_heads": ["n_head", "n_heads", "num_heads"],
    "kv_heads": ["num_kv_heads", "num_query_groups"],
    "head_dim": ["kv_channels", "attention_head_dim"],
    "positions": ["n_positions", "max_seq_len", "n_ctx", "max_sequence_length"],
    "intermediate": ["n_inner", "ffn_hidden_size", "ffn_dim"],
    "index_dim": ["sparse_attention_config.sparse_index_dim"],
    "csa_rate": ["compress_rate_csa"],
    "hca_rate": ["compress_rate_hca"],
    "delta_v_heads": ["linear_attn_config.num_heads", "num_attention_heads"],
    "delta_k_heads": ["linear_attn_config.num_heads", "num_attention_heads"],
    "delta_k_dim": ["linear_attn_config.head_dim", "head_dim"],
    "delta_v_dim": ["linear_attn_config.head_dim", "head_dim"],
    "delta_kernel": ["linear_attn_config.short_conv_kernel_size", "short_conv_kernel_size"],
}
# Fields whose older name may be another field of the class.
MADE_FROM_OTHERS = ("delta_",)

# Which formula of src/core/config_state.cc gives the state of a layer that keeps one. A class is
# listed once a test has compared the formula with the state that Transformers allocates.
FORMULAS = {
    "mamba": "MambaConfig FalconMambaConfig JambaConfig ZambaConfig",
    "mamba2": (
        "Mamba2Config BambaConfig GraniteMoeHybridConfig FalconH1Config NemotronHConfig "
        "Zamba2Config"
    ),
    "delta": (
        "Qwen3NextConfig Qwen3_5TextConfig Qwen3_5MoeTextConfig Qwen4ExpTextConfig "
        "OlmoHybridConfig LaraMiniConfig KimiLinearConfig BailingHybridConfig Glm5NextTextConfig"
    ),
    "conv": "Lfm2Config Lfm2MoeConfig Lfm3Config",
    "lightning": "MiniMaxConfig",
    "rglru": "RecurrentGemmaConfig",
    "cca": "ZayaConfig",
    "sconv": "InklingTextConfig Inkling2TextConfig Inkling2LoopTextConfig",
}
STATES = {name: formula for formula, names in FORMULAS.items() for name in names.split()}

# What only the code of the model says.
BY_HAND = {
    "LongcatFlashConfig": ["half_layers=num_layers:-"],  # two attentions in each
    "MiMoV2FlashConfig": ["window_kv_factor:2"],  # twice the KV heads in sliding layers
    # One token for a square of so many patches each way, of an image that is not cut into tiles.
    "Idefics3Config": ["image_grid=scale_factor:2"],
    "SmolVLMConfig": ["image_grid=scale_factor:2"],
    "PaliGemmaConfig": ["image_grid:1"],
    "Glm5NextTextConfig": ["index_gates:1"],  # a gate beside each key, and a flag for both
    "Qwen4ExpTextConfig": [
        "ple_layers=ple_layer_ids:-",
        "index_positions:3",
    ],  # time, height, width
}

# The letters of src/core/config_layers.cc.
LETTER_PAIRS = (
    "full_attention=f sliding_attention=s chunked_attention=c linear_attention=l conv=v hybrid=h "
    "hybrid_sliding=g indexed_attention=i compressed_sparse_attention=p moe=m mlp=n "
    "heavily_compressed_attention=q minimax_m3_sparse=x reference_sliding_attention=r"
)
LETTERS = dict(pair.split("=") for pair in LETTER_PAIRS.split())
PERIODS = ["sliding_window_pattern", "full_attention_interval"]
PERIODS += ["global_attn_every_n_layers", "layer_group_size"]
CODED_TYPES = {
    "compress_ratios": [0, 4, 128],
    "sparse_attention_config.sparse_attention_freq": [0, 1],
}
COUNTS = [2, 3, 5, 7, 8, 12, 13, 16, 17, 24, 29, 30]


def make(cls: type[PreTrainedConfig], **values: Any) -> PreTrainedConfig | None:
    """Return a config, or None where the class refuses the values."""
    try:
        config = cls(**values)
    except Exception:
        return None
    config.__dict__["allow_global_per_layer_attribute_access"] = True
    return config


def read(config: PreTrainedConfig | None, name: str) -> Any:
    """Return a value, or None; `compress_rates.csa` is one inside another."""
    value: Any = config
    for part in name.split("."):
        try:
            value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
        except Exception:
            return None
    return value


def nested(name: str, value: Any) -> dict[str, Any]:
    """Return the keyword arguments that give `name` a value; a name with a dot is nested."""
    for part in reversed(name.split(".")):
        value = {part: value}
    return value  # type: ignore[no-any-return]


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class Row:
    """One class, as the tokens of its row."""

    def __init__(self, cls: type[PreTrainedConfig]) -> None:
        self.cls = cls
        self.config = make(cls)
        self.raw = {name: field.default for name, field in cls.__dataclass_fields__.items()}
        self.native: dict[str, str] = {}
        self.tokens = [f"class={cls.__name__}"]
        for field in FIELDS:
            self.add_field(field)
        self.add_layer_types()
        if cls.__name__ in STATES:
            self.tokens.append(f"state:{STATES[cls.__name__]}")
        self.add_per_type_heads()
        if "num_layers_per_stack" in self.raw:
            self.tokens.append(f"stack_layers=num_layers_per_stack:{self.raw['num_hidden_layers']}")
        self.tokens += BY_HAND.get(cls.__name__, [])
        if hasattr(cls, "kv_sharing_modes"):
            self.tokens.append("shares_kv:1")

    def has(self, name: str) -> bool:
        mapped = self.cls.attribute_map.get(name, name)
        if mapped in self.raw or isinstance(getattr(self.cls, mapped, None), (int, property)):
            return True
        return self.config is not None and read(self.config, name) is not None

    def add_field(self, field: str) -> None:
        canonical = next((name for name in FIELDS[field] if self.has(name)), None)
        if canonical is None:
            return
        native = self.cls.attribute_map.get(canonical, canonical)
        self.native[field] = native
        names = [name for name, to in self.cls.attribute_map.items() if to == native]
        names += [native, *self.older_names(field, {*names, native})]
        if self.is_forced(field, native):
            names = [""]  # whatever the file says
        default = self.default(field, native, forced=names == [""])
        spelled = "" if names == FIELDS[field][:1] else "=" + ",".join(names)
        self.tokens.append(f"{field}{spelled}:{default}")

    def older_names(self, field: str, known: set[str]) -> list[str]:
        value = read(self.config, self.native[field])
        if not is_count(value) or value <= 0:
            return []
        found = []
        for name in OLDER_NAMES.get(field, []):
            other = name in self.raw or name in self.cls.attribute_map
            if name in known or (other and not field.startswith(MADE_FROM_OTHERS)):
                continue
            if read(make(self.cls, **nested(name, 2 * value)), self.native[field]) == 2 * value:
                found.append(name)
        return found

    def is_forced(self, field: str, native: str) -> bool:
        """Say whether the class computes a field, and overwrites what the file says."""
        value = read(self.config, native)
        if (
            field not in ("head_dim", "kv_heads", "q_heads")
            or native not in self.raw
            or not is_count(value)
        ):
            return False
        config = make(self.cls, **{native: 2 * value})
        return config is not None and read(config, native) == value

    def default(self, field: str, native: str, forced: bool = False) -> str:
        value = read(self.config, native)
        raw = self.raw.get(native)
        if self.config is None:
            value = raw
        if isinstance(value, bool):
            return str(int(value))
        if isinstance(value, (list, tuple)):
            if field.endswith("intermediate") and value and all(is_count(item) for item in value):
                return f"[{max(value)}"
            return "-"
        if field == "window" and "use_sliding_window" in self.raw and is_count(raw):
            return str(raw)  # `__post_init__` drops it where use_sliding_window is false
        if not is_count(value):
            return "-"
        if is_count(raw) and not forced:
            return str(value)
        return self.rule(field, native, value)

    def rule(self, field: str, native: str, value: int) -> str:
        """Name how a value that nobody gave follows from the others."""
        hidden, heads = self.native.get("hidden"), self.native.get("q_heads")
        follows = field in ("kv_heads", "delta_k_heads", "delta_v_heads")
        if follows and heads and value == read(self.config, heads):
            return "@q_heads"
        if field == "q_heads" and is_count(kv := read(self.config, "num_key_value_heads")):
            doubled = make(self.cls, num_key_value_heads=2 * kv)
            if kv * (read(self.config, "num_experts_per_tok") or 0) == value and (
                read(doubled, native) == 2 * value
            ):
                return "@kv_by_experts"
        candidates = {}
        if field == "delta_k_dim" and hidden and heads:
            candidates["@three_quarters"] = lambda c: 3 * read(c, hidden) // (4 * read(c, heads))
        if field == "delta_v_dim":
            k_dim = self.native["delta_k_dim"]
            candidates["@twice_k"] = lambda c: 2 * read(c, k_dim)
        if hidden and heads:
            candidates["@div"] = lambda c: read(c, hidden) // read(c, heads)
            candidates["@twice"] = lambda c: 2 * read(c, hidden) // read(c, heads)
        if "nope_dim" in self.native:
            nope, rope = self.native["nope_dim"], self.native.get("rope_dim", "")
            candidates["@nope_and_rope"] = lambda c: read(c, nope) + read(c, rope)
        expand = self.native.get("ssm_expand") or "expand"
        if hidden:
            candidates["@expanded"] = lambda c: read(c, expand) * read(c, hidden)
        for other in ("rope_dim", "hidden", "intermediate", "nope_dim"):
            if other == field:
                continue
            name = self.native.get(other) or FIELDS[other][0]
            candidates[f"@{other}"] = lambda c, name=name: read(c, name)
        changed = [self.config]
        if hidden and heads:
            changed.append(make(self.cls, **{hidden: 4 * read(self.config, hidden)}))
        if self.has("qk_rope_head_dim"):
            changed.append(make(self.cls, qk_rope_head_dim=32))
        changed = [config for config in changed if config is not None]
        if all(read(config, native) == value for config in changed) and len(changed) > 1:
            return str(value)
        for name, formula in candidates.items():
            try:
                if all(read(config, native) == formula(config) for config in changed):
                    return name
            except TypeError:
                continue
        return "-"

    def letters(self, **values: Any) -> str | None:
        types = read(make(self.cls, **values), "layer_types")
        if not isinstance(types, (list, tuple)) or any(kind not in LETTERS for kind in types):
            return None
        return "".join(LETTERS[kind] for kind in types)

    def add_layer_types(self) -> None:
        if self.config is None or "layers" not in self.native:
            return
        default = self.letters()
        layers = self.native["layers"]
        seen = {count: self.letters(**{layers: count}) for count in COUNTS}
        seen = {count: text for count, text in seen.items() if text and len(text) == count}
        native = self.cls.attribute_map.get("layer_types", "layer_types")
        names = [n for n, to in self.cls.attribute_map.items() if to == native]
        if default is not None or native in self.raw:
            if default is not None:
                seen[len(default)] = default
            # A few layers may be an exception: some classes keep one of each type.
            many = {count: text for count, text in seen.items() if count >= 5}
            pattern = fit(seen) or fit(many) or (f"={default}" if default else "-")
            spelled = "=" + ",".join([*names, native]) if names else ""
            self.tokens.append(f"types{spelled}:{pattern}")
        for key in PERIODS:
            text = self.letters(**{layers: 12, key: 3})
            if text and text == text[:3] * 4 and text != self.letters(**{layers: 12}):
                self.tokens.append(f"period={key}:{text[:3]}")
        offset = read(self.config, "attn_layer_offset")
        if default and is_count(offset) and is_count(read(self.config, "attn_layer_period")):
            period = self.config.attn_layer_period
            on = [default[i] for i in range(len(default)) if i % period == offset]
            off = [default[i] for i in range(len(default)) if i % period != offset]
            if not set(on) & set(off):
                self.tokens.append(f"every=attn_layer_period,attn_layer_offset:{period},{offset}")
        for key in ("full_attn_idxs", "attn_layer_indices"):
            text = self.letters(**{layers: 4, key: [1]})
            if text and len(text) == 4 and text[1] == "f" and text[0] == text[2] == text[3] != "f":
                self.tokens.append(f"full_at={key}:{text[0]}")
        self.add_older_lists(layers)
        text = self.letters(**{layers: 4, "hybrid_override_pattern": "M*-E"})
        if text == "lfnm":
            self.tokens.append("pattern=hybrid_override_pattern:1")
        longer = make(self.cls, **{layers: 5, "layer_types": ["full_attention"] * 2})
        if longer is not None and read(longer, layers) == 2:
            self.tokens.append("types_count_layers:1")
        halved = make(self.cls, **{layers: 4, "layer_types": ["full_attention", "mlp"] * 2})
        if halved is not None and read(halved, layers) == 2:
            self.tokens.append("mlp_between:1")
        values = {layers: 6, "use_sliding_window": True, "sliding_window": 8}
        if self.letters(**values, max_window_layers=2) == "ffssss":
            self.tokens.append("window_by_count:1")

    def add_older_lists(self, layers: str) -> None:
        """Add the forms of checkpoints that list the types of layers in words of their own."""
        for key, codes in CODED_TYPES.items():
            text = self.letters(**{layers: len(codes), **nested(key, codes)})
            back = self.letters(**{layers: len(codes), **nested(key, codes[::-1])})
            if text and back == text[::-1] and len(set(text)) == len(codes) == len(text):
                pairs = ",".join(
                    f"{code}{letter}" for code, letter in zip(codes, text, strict=True)
                )
                self.tokens.append(f"coded={key}:{pairs}")
        lists = {"kda_layers": [2], "full_attn_layers": [1, 3, 4]}
        if self.letters(**{layers: 4, "linear_attn_config": lists}) == "flff":
            self.tokens.append("from_one=linear_attn_config.kda_layers:l")
        if self.letters(**{layers: 4, "layer_types": ["full_attention"] * 4}) == "iiii":
            self.tokens.append("full_is_indexed:1")
        if self.letters(**{layers: 2, "layer_types": ["sliding_attention"] * 3}) == "ss":
            self.tokens.append("cuts_types:1")
        if "indexer_types" in self.raw:
            seen = {count: self.indexers(layers, count) for count in COUNTS}
            self.tokens.append(f"indexers=indexer_types:{fit(seen) or '-'}")

    def indexers(self, layers: str, count: int) -> str:
        """Spell which layers have an indexer of their own, F, and which share another's, S."""
        types = read(make(self.cls, **{layers: count}), "indexer_types") or []
        return "".join("S" if kind == "shared" else "F" for kind in types)

    def add_per_type_heads(self) -> None:
        for key, field in (
            ("global_head_dim", "head_dim"),
            ("num_global_key_value_heads", "kv_heads"),
        ):
            if self.config is None or not self.config.is_heterogeneous:
                continue
            config = make(self.cls, **{key: 3})
            name = self.native.get(field)
            if config is None or name is None or "full_attention" not in (config.layer_types or []):
                continue
            layer = config.layer_types.index("full_attention")
            if read(config.per_layer_config[layer], name) != 3:
                continue
            usual = read(self.config.per_layer_config[layer], name)
            default = usual if usual != read(self.config, name) else "-"
            self.tokens.append(f"full_{field}={key}:{default}")


def fit(seen: dict[int, str]) -> str | None:
    """Find PREFIX|BODY|LAST, where BODY repeats, that gives every list of types that was seen.

    A BODY after `<` repeats from the last layer backwards.
    """
    if len(seen) < 3:
        return None
    longest = max(seen.values(), key=len)
    for period in range(1, 9):
        for prefix in range(9):
            for last in (False, True):
                body = longest[prefix : prefix + period]
                text = f"{longest[:prefix]}|{body}|{longest[-1] if last else ''}"
                if all(expand(text, count) == types for count, types in seen.items()):
                    return text
        body = longest[len(longest) - period :]
        for prefix in range(3):
            text = f"{longest[:prefix]}|<{body}|"
            if all(expand(text, count) == types for count, types in seen.items()):
                return text
    return None


def expand(pattern: str, count: int) -> str:
    """Spell the layer types of `count` layers, as src/core/config_layers.cc does."""
    prefix, body, last = pattern.split("|")
    backwards = body.startswith("<")
    body = body.removeprefix("<")
    out = []
    for i in range(count):
        if last and i == count - 1:
            out.append(last)
        elif i < len(prefix):
            out.append(prefix[i])
        elif backwards:
            out.append(body[(i - count) % len(body)])
        else:
            out.append(body[(i - len(prefix)) % len(body)])
    return "".join(out)
