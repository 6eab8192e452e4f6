"""Writes src/core/config_table.inc: what Transformers' config classes call their fields.

`python scripts/config_table.py` writes it from the installed Transformers; with `--check` it says
whether the file is as the library is. A row holds one class, as src/core/config_table.h describes.

What the classes state is read (defaults, `attribute_map`, sub-configs); what they do in
`__post_init__` is found by making configs and looking: older names of a field, rules for values
that are left out, patterns of layer types.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import transformers
from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

TABLE = Path(__file__).resolve().parent.parent / "src" / "core" / "config_table.inc"

# Our name of a field, and the names that classes give it; the first one that a class has counts.
FIELDS = {
    "hidden": ["hidden_size", "embed_dim"],
    "layers": ["num_hidden_layers", "depth"],
    "q_heads": ["num_attention_heads"],
    "kv_heads": ["num_key_value_heads", "num_kv_heads"],
    "rope_dim": ["qk_rope_head_dim"],
    "nope_dim": ["qk_nope_head_dim"],
    "head_dim": ["head_dim"],
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
    "index_dim": ["index_head_dim"],
    "shared_kv_layers": ["num_kv_shared_layers"],
    "multi_query": ["multi_query"],
    "new_decoder": ["new_decoder_architecture"],
    "image_tokens": ["mm_tokens_per_image", "image_seq_length", "image_seq_len"],
    "image_size": ["image_size"],
    "patch_size": ["patch_size"],
    "merge": ["spatial_merge_size"],
    "ssm_expand": ["mamba_expand", "expand"],
    "ssm_heads": ["mamba_n_heads", "mamba_num_heads", "num_heads"],
    "ssm_head_dim": ["mamba_d_head", "mamba_head_dim"],
    "ssm_state": ["mamba_d_state", "ssm_state_size", "state_size"],
    "ssm_groups": ["mamba_n_groups", "n_groups", "mamba_ngroups"],
    "ssm_kernel": ["mamba_d_conv", "conv_kernel"],
    "ssm_inner": ["mamba_d_ssm"],
    "delta_v_heads": ["linear_num_value_heads"],
    "delta_k_heads": ["linear_num_key_heads"],
    "delta_k_dim": ["linear_key_head_dim"],
    "delta_v_dim": ["linear_value_head_dim"],
    "delta_kernel": ["linear_conv_kernel_dim"],
    "conv_kernel": ["conv_L_cache"],
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
}

# Which formula of src/core/config_state.cc gives the state of a layer that keeps one. A class is
# listed once a test has compared the formula with the state that Transformers allocates.
FORMULAS = {
    "mamba": "MambaConfig FalconMambaConfig",
    "mamba2": "Mamba2Config BambaConfig GraniteMoeHybridConfig FalconH1Config NemotronHConfig",
    "delta": "Qwen3NextConfig Qwen3_5TextConfig Qwen3_5MoeTextConfig",
    "conv": "Lfm2Config Lfm2MoeConfig",
}
STATES = {name: formula for formula, names in FORMULAS.items() for name in names.split()}

# What only the code of the model says.
BY_HAND = {
    "LongcatFlashConfig": ["half_layers=num_layers:-"],  # two attentions in each
    "MiMoV2FlashConfig": ["window_kv_factor:2"],  # twice the KV heads in sliding layers
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
    try:
        return getattr(config, name, None)
    except Exception:
        return None


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
            if name in known or name in self.raw or name in self.cls.attribute_map:
                continue
            if read(make(self.cls, **{name: 2 * value}), self.native[field]) == 2 * value:
                found.append(name)
        return found

    def is_forced(self, field: str, native: str) -> bool:
        """Say whether the class computes a field, and overwrites what the file says."""
        value = read(self.config, native)
        if field not in ("head_dim", "kv_heads") or native not in self.raw or not is_count(value):
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
        if field == "kv_heads" and heads and value == read(self.config, heads):
            return "@q_heads"
        candidates = {}
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
            if set(on) & set(off):
                return
            self.tokens.append(f"every=attn_layer_period,attn_layer_offset:{period},{offset}")
        for key in ("full_attn_idxs", "attn_layer_indices"):
            text = self.letters(**{layers: 4, key: [1]})
            if text and len(text) == 4 and text[1] == "f" and text[0] == text[2] == text[3] != "f":
                self.tokens.append(f"full_at={key}:{text[0]}")
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


class Table:
    """Rows by key: the model type, with the class's name behind a slash where two share one."""

    def __init__(self) -> None:
        self.keys: dict[type[PreTrainedConfig], str] = {}
        self.rows: dict[str, Row] = {}
        for model_type in CONFIG_MAPPING_NAMES:
            self.add(CONFIG_MAPPING[model_type], model_type)
        for cls in list(self.keys):
            self.add_parts(cls)
        for cls, key in list(self.keys.items()):
            self.link(cls, self.rows[key])

    def add(self, cls: type[PreTrainedConfig], key: str) -> None:
        if cls not in self.keys:
            self.keys[cls] = key
        self.rows[key] = self.rows.get(key) or Row(cls)

    def add_parts(self, cls: type[PreTrainedConfig]) -> None:
        for spec in cls.sub_configs_defaults.values():
            part = spec.config_class
            if not issubclass(part, PreTrainedConfig) or part in self.keys:
                continue
            taken = not part.model_type or part.model_type in self.rows
            self.add(part, f"{part.model_type}/{part.__name__}" if taken else part.model_type)
            self.add_parts(part)

    def link(self, cls: type[PreTrainedConfig], row: Row) -> None:
        if row.config is None:
            return
        text = text_config(row.config)
        path = find(row.config, lambda part: part is text)
        if text is not None and path:
            self.link_text(row, text, path)
        images = ("vision_config", "vision_tower_config", "vision_encoder", "vit_config")
        for name in images:
            part = getattr(row.config, name, None)
            if isinstance(part, PreTrainedConfig) and type(part) in self.keys:
                spec = cls.sub_configs_defaults.get(name)
                kind = how(spec)
                row.tokens.append(f"vision={name}:{self.keys[type(part)]}:{kind}")
                break

    def link_text(self, row: Row, text: PreTrainedConfig, path: list[str]) -> None:
        holder = row.config
        for name in path[:-1]:
            holder = getattr(holder, name)
        kind = how(type(holder).sub_configs_defaults.get(path[-1]))
        key = self.keys.get(type(text))
        if key is None:
            return
        hidden = self.rows[key].native.get("hidden")
        flat = "deep"
        if hidden and is_count(value := read(text, hidden)):
            flat_config = make(row.cls, **{hidden: 2 * value})
            if flat_config is not None and read(text_config(flat_config), hidden) == 2 * value:
                flat = "flat"
        row.tokens.append(f"text={'.'.join(path)}:{key}:{kind}:{flat}")
        plain = make(type(text))
        names = self.rows[key].native.values()
        changed = any(read(text, name) != read(plain, name) for name in names)
        text.__dict__["allow_global_per_layer_attribute_access"] = True
        for field, name in self.rows[key].native.items():
            value, usual = read(text, name), read(plain, name)
            rule = (self.rows[key].default(field, name) or "-")[0] in "@-"
            if value is None and usual is not None and field in ("window", "chunk"):
                row.tokens.append(f"set={field}:0")
            elif isinstance(value, int) and (value != usual or (rule and changed)):
                row.tokens.append(f"set={field}:{int(value)}")


def how(spec: Any) -> str:
    """Say whether a nested `model_type` chooses the class."""
    return "fixed" if spec is None or issubclass(spec.config_class, PreTrainedConfig) else "auto"


def text_config(config: PreTrainedConfig | None) -> PreTrainedConfig | None:
    if config is None:
        return None
    try:
        return config.get_text_config()
    except ValueError:  # both an encoder and a decoder
        return config.get_text_config(decoder=True)


def find(config: PreTrainedConfig, wanted: Any) -> list[str]:
    for name in config.sub_configs:
        part = getattr(config, name, None)
        if not isinstance(part, PreTrainedConfig):
            continue
        if wanted(part):
            return [name]
        if path := find(part, wanted):
            return [name, *path]
    return []


def literal(text: str) -> list[str]:
    """Split a row into string literals that keep to 80 columns."""
    lines, line = [], ""
    for token in text.split(" "):
        if line and len(line) + len(token) > 66:
            lines.append(line)
            line = ""
        line += token + " "
    return [*lines, line.rstrip()]


def generate() -> str:
    table = Table()
    text_rows = [row for row in table.rows.values() if "layers" in row.native]
    anyone = ["class="]
    for field, names in FIELDS.items():
        if field.startswith(("ssm_", "delta_", "conv_", "image_", "patch_", "merge", "new_")):
            continue
        counts = Counter(row.native[field] for row in text_rows if field in row.native)
        seen = [name for name, count in counts.most_common() if count > 1]
        every = dict.fromkeys([*names, *seen, *OLDER_NAMES.get(field, [])])
        anyone.append(f"{field}={','.join(every)}:-")
    out = [
        f"// Generated from Transformers {transformers.__version__} by "
        "scripts/config_table.py; do not edit.",
        "// `python scripts/config_table.py` writes it again. NOLINT",
    ]
    rows = {"": anyone} | {key: row.tokens for key, row in table.rows.items()}
    for key, tokens in sorted(rows.items(), key=lambda item: item[0].encode()):
        parts = [f'     "{line}"' for line in literal(" ".join(tokens))]
        out += [f'    {{"{key}",', *parts]
        out[-1] += "},"
    return "\n".join(out) + "\n"


def main() -> int:
    """Write or check; return the exit code."""
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity(60)
    text = generate()
    if "--check" not in sys.argv:
        TABLE.write_text(text)
        return 0
    if TABLE.exists() and TABLE.read_text() == text:
        return 0
    print(f"stale: {TABLE.name}; run `python scripts/config_table.py`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
