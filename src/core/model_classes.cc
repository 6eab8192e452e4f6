#include "model_classes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "printable.h"

namespace trnscout {
namespace {

const ModelRow* find_row(absl::Span<const ModelRow> rows,
                         absl::string_view name) {
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), name,
                       [](const ModelRow& row, absl::string_view key) {
                         return row.name < key;
                       });
  return found != rows.end() && found->name == name ? &*found : nullptr;
}

const ModelRow* find_by_type(absl::Span<const ModelTypeRow> rows,
                             absl::string_view model_type) {
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), model_type,
                       [](const ModelTypeRow& row, absl::string_view key) {
                         return row.model_type < key;
                       });
  if (found == rows.end() || found->model_type != model_type) return nullptr;
  return find_row(parallel_plan_table().architectures, found->architecture);
}

// What stands in a slot, or null.
const ModelRow* occupant(SlotKind kind, absl::string_view model_type) {
  const ParallelPlanTable& table = parallel_plan_table();
  return kind == SlotKind::kCausalModel
             ? find_by_type(table.causal_models, model_type)
             : find_row(table.base_models, model_type);
}

bool below(absl::string_view path, absl::string_view root) {
  return path == root || absl::StartsWith(path, absl::StrCat(root, "."));
}

PlacedClass place(std::string path, const SubmodelRow& row, bool reaches) {
  const auto index = static_cast<std::size_t>(row.class_index);
  return {std::move(path), &parallel_plan_table().classes[index],
          row.plan_reaches && reaches};
}

// A slot is reached where its parent is; such a parent is the whole model's
// or the base model's, which always are.
void fill_slot(const SlotRow& slot, const ModelRow& with, bool reaches,
               std::vector<PlacedClass>& out) {
  for (const SubmodelRow& row : with.submodels) {
    const absl::string_view dot = row.path.empty() ? "" : ".";
    out.push_back(place(absl::StrCat(slot.path, dot, row.path), row, reaches));
  }
}

const NestedModel* given_for(const SlotRow& slot,
                             absl::Span<const NestedModel> nested) {
  for (const NestedModel& model : nested) {
    if (model.config_field == slot.config_field) return &model;
  }
  return nullptr;
}

absl::Status check_fields(const ModelRow& model,
                          absl::Span<const NestedModel> nested) {
  for (const NestedModel& given : nested) {
    const bool known = std::any_of(
        model.slots.begin(), model.slots.end(), [&given](const SlotRow& slot) {
          return slot.config_field == given.config_field;
        });
    if (known) continue;
    const std::string fields = absl::StrJoin(
        model.slots, ", ", [](std::string* out, const SlotRow& slot) {
          absl::StrAppend(out, slot.config_field);
        });
    return absl::NotFoundError(absl::StrCat(
        model.name, " has no nested config ", printable(given.config_field),
        " that may name another model; it has ",
        fields.empty() ? "none" : fields));
  }
  return absl::OkStatus();
}

absl::Status no_occupant(const ModelRow& model, const NestedModel& given) {
  return absl::NotFoundError(absl::StrCat(
      "Transformers ", parallel_plan_table().transformers_version,
      " has no model type ", printable(given.model_type), " that can be the ",
      given.config_field, " of ", model.name));
}

}  // namespace

absl::StatusOr<ModelClasses> find_model_classes(
    absl::string_view architecture_or_model_type,
    absl::Span<const NestedModel> nested) {
  const ParallelPlanTable& table = parallel_plan_table();
  ModelClasses out;
  out.model = find_row(table.architectures, architecture_or_model_type);
  if (out.model == nullptr) {
    out.model = find_by_type(table.model_types, architecture_or_model_type);
  }
  if (out.model == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("Transformers ", table.transformers_version,
                     " has no architecture or model type ",
                     printable(architecture_or_model_type),
                     " for text-generation or image-text-to-text"));
  }
  absl::Status status = check_fields(*out.model, nested);
  if (!status.ok()) return status;
  out.ignored.assign(out.model->ignored.begin(), out.model->ignored.end());
  std::vector<const SlotRow*> changed;
  for (const SlotRow& slot : out.model->slots) {
    const NestedModel* given = given_for(slot, nested);
    const bool other = given != nullptr && given->model_type != slot.model_type;
    if (other) changed.push_back(&slot);
    out.nested.push_back(
        {std::string(slot.config_field),
         other ? given->model_type : std::string(slot.model_type)});
  }
  for (const SubmodelRow& row : out.model->submodels) {
    const bool replaced = std::any_of(
        changed.begin(), changed.end(),
        [&row](const SlotRow* slot) { return below(row.path, slot->path); });
    if (!replaced) {
      out.classes.push_back(place(std::string(row.path), row, true));
    }
  }
  for (const SlotRow* slot : changed) {
    const NestedModel& given = *given_for(*slot, nested);
    const ModelRow* with = occupant(slot->kind, given.model_type);
    if (with == nullptr) return no_occupant(*out.model, given);
    fill_slot(*slot, *with, slot->plan_reaches, out.classes);
    out.ignored.insert(out.ignored.end(), with->ignored.begin(),
                       with->ignored.end());
  }
  return out;
}

}  // namespace trnscout
