"""Writes src/core/config_table.inc: what Transformers' config classes call their fields.

`python scripts/config_table.py` writes it from the installed Transformers; with `--check` it says
whether the file is as the library is. A row holds one class, as src/core/config_table.h describes.
scripts/config_row.py makes the rows; here they get their keys and the links between classes.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import transformers
from config_row import FIELDS, OLDER_NAMES, Row, is_count, make, read
from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

# What only makes sense with the rules of one class; families that are not known have none of it.
FAMILY_FIELDS = (
    *("ssm_", "delta_", "conv_", "image_", "patch_", "merge", "new_", "window_kv", "window_head"),
    *("csa_", "hca_", "loop_", "outer_", "inner_", "lru_", "cca_", "ple_"),
)
TABLE = Path(__file__).resolve().parent.parent / "src" / "core" / "config_table.inc"


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
        if field.startswith(FAMILY_FIELDS):
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
