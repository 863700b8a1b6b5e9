// SPDX-License-Identifier: BSD-3-Clause
#include "job.hpp"

#include <ATen/ATen.h>

#include <numeric>
#include <string>
#include <vector>

#include "cairn/storage.hpp"

namespace elastic {
namespace {

using cairn::Object;

std::vector<std::pair<std::string, at::Tensor>> parameters_of(const Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> found;
  for (const auto& item : model.named_parameters()) found.emplace_back(item.key(), item.value());
  return found;
}

cairn::TrainingOptions training_options(const Options& options) {
  cairn::TrainingOptions made;
  made.save.sync = options.sync;
  made.retention = {.keep_last = options.keep_last, .keep_every = options.keep_every};
  made.async.staging_bytes = options.staging_mib << 20;
  return made;
}

}  // namespace

Job::Job(MPI_Comm ranks, cairn::Communicator& comm, const Options& options)
    : ranks_(ranks),
      comm_(comm),
      options_(options),
      model_(options.model, options.seed),
      adam_(ranks, options.adam, parameters_of(model_)),
      loader_(options, comm.rank(), comm.size()),
      checkpoints_(comm, cairn::posix_file_system(), options.directory, training_options(options)),
      step_count_(at::zeros({})) {}

double Job::step() {
  adam_.gather();
  std::vector<double> losses;
  for (int i = loader_.first(); i < loader_.end(); ++i) {
    const at::Tensor loss = model_.loss(loader_.tokens(steps_done_, i));
    loss.backward();
    adam_.take_gradients();
    losses.push_back(loss.item<double>());
  }
  adam_.update(++steps_done_, options_.micro_batches);
  step_count_.fill_(static_cast<float>(steps_done_));
  return mean_of_all(losses);
}

// The losses of all micro-batches, added in one order on any number of ranks.
double Job::mean_of_all(const std::vector<double>& losses) const {
  std::vector<int> counts, places;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const Loader loader(options_, rank, comm_.size());
    places.push_back(loader.first());
    counts.push_back(loader.end() - loader.first());
  }
  std::vector<double> all(static_cast<std::size_t>(options_.micro_batches));
  MPI_Allgatherv(losses.data(), static_cast<int>(losses.size()), MPI_DOUBLE, all.data(), counts.data(),
                 places.data(), MPI_DOUBLE, ranks_);
  return std::accumulate(all.begin(), all.end(), 0.0) / options_.micro_batches;
}

// Flat names, as PyTorch's get_state_dict gives them with a flattened optimizer.
void Job::describe_parameter(JobState& state, const ShardedParameter& here) {
  state.model.add_tensor("net." + here.name, here.layout, here.weight);
  state.optim.add_tensor("state.net." + here.name + ".step", step_count_);
  state.optim.add_tensor("state.net." + here.name + ".exp_avg", here.layout, here.mean);
  state.optim.add_tensor("state.net." + here.name + ".exp_avg_sq", here.layout, here.square);
  const auto group = [&](const char* key, Object value) {
    state.optim.live().add_object("param_groups.net." + here.name + "." + key, std::move(value));
  };
  group("lr", options_.adam.learning_rate);
  group("betas", Object::Tuple{{options_.adam.beta1, options_.adam.beta2}});
  group("eps", options_.adam.epsilon);
}

void Job::describe(JobState& state) {
  for (const ShardedParameter& here : adam_.parameters()) describe_parameter(state, here);
  for (const ShardedParameter& here : adam_.parameters())
    state.model.add_tensor("net_ema." + here.name, here.layout, here.average);
  state.scheduler.live().add_object("last_step", steps_done_);
  state.scheduler.live().add_object("warm_up", options_.adam.warm_up);
  state.trainer.live().add_object("iteration", steps_done_);
  state.trainer.live().add_object("micro_batches", options_.micro_batches);
  state.trainer.live().add_object("micro_size", options_.micro_size);
  state.trainer.live().add_object("samples", steps_done_ * options_.micro_batches * options_.micro_size);
  state.trainer.live().add_rank_object("dataloader", loader_.state());
}

std::vector<cairn::SavedComponent> Job::prepared(JobState& state) {
  describe(state);
  for (cairn::TorchState* part : {&state.model, &state.optim, &state.scheduler, &state.trainer})
    part->prepare_save();
  return {{"model", state.model.live()},
          {"optim", state.optim.live()},
          {"scheduler", state.scheduler.live()},
          {"trainer", state.trainer.live()}};
}

cairn::IterationReport Job::save() {
  JobState state(comm_);
  return checkpoints_.save(steps_done_, prepared(state));
}

cairn::AsyncIteration Job::start_save() {
  JobState state(comm_);
  return checkpoints_.start_save(steps_done_, prepared(state));
}

cairn::ResumeReport Job::resume() {
  cairn::ResumeOptions resume;
  resume.load.rank_entries = cairn::RankEntryPolicy::drop;  // a rank's data loader: its share has changed
  resume.start.rank_entries = cairn::RankEntryPolicy::drop;
  resume.start.plan.allow_missing = {"net_ema.*"};
  resume.start_from = options_.start_from;
  resume.load_training_state = !options_.weights_only;
  JobState state(comm_);
  describe(state);
  const std::vector<cairn::TorchState*> parts{&state.model, &state.optim, &state.scheduler, &state.trainer};
  for (cairn::TorchState* part : parts) part->prepare_load();
  const auto report = checkpoints_.resume({{"model", state.model.live()},
                                           {"optim", state.optim.live()},
                                           {"scheduler", state.scheduler.live()},
                                           {"trainer", state.trainer.live()}},
                                          resume);
  for (cairn::TorchState* part : parts) part->finish_load();
  take(state, report);
  return report;
}

// Which samples a step reads depends on it, on any number of ranks.
void Job::require_same(const char* what, const Object& saved, std::int64_t now) {
  const auto then = saved.as<std::int64_t>();
  if (then == now) return;
  throw cairn::Error(cairn::ErrorKind::mismatch, "the job was saved with " + std::to_string(then) + " " +
                                                     what + ", this one has " + std::to_string(now));
}

void Job::take(const JobState& state, const cairn::ResumeReport& report) {
  if (report.path.empty()) return;
  if (report.components.size() == 1) return adam_.restart_average();  // weights: a new stage begins
  require_same("micro-batches in a step", state.trainer.object("micro_batches"), options_.micro_batches);
  require_same("samples in a micro-batch", state.trainer.object("micro_size"), options_.micro_size);
  steps_done_ = state.trainer.object("iteration").as<std::int64_t>();
  const Object& own = state.trainer.object("dataloader.rank_" + std::to_string(comm_.rank()));
  if (own.is<Object::Dict>()) loader_.restore(own);
}

}  // namespace elastic
