// Private: the CPU backend over a table of kernels. Splits each operation into tasks for its team of threads.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/block_shares.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/memory_pool.h"

namespace sightline::cpu {

constexpr int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

class CpuBackend : public Backend {
 public:
  // `kernels` must live as long as the backend and run on this processor.
  CpuBackend(const CpuKernels& kernels, std::string isa, int threads);

  std::string name() const override;
  std::string isa() const override { return isa_; }
  int threads() const override { return team_.size(); }
  Precision preferred_precision() const override;
  size_t allocated_bytes() const override { return pool_.allocated_bytes() + scratch_pool_.allocated_bytes(); }

  std::string PackedLayout(Precision precision) const override;
  size_t PackedBytes(Precision precision, int64_t outputs, int64_t inputs) const override;
  void Pack(Precision precision, std::span<const float> weight, int64_t outputs, int64_t inputs,
            std::span<std::byte> packed) const override;

 private:
  std::shared_ptr<DeviceBlock> Allocate(size_t bytes) override { return pool_.Take(bytes); }
  Storage DoOperandStorage(Precision precision) const override;
  void DoUpload(std::span<const float> values, const Rows& to) override;
  void DoDownload(const Rows& from, std::span<float> values) override;
  void DoCopyRows(const Rows& from, const Rows& to) override;
  void DoLinear(const Rows& x, const WeightMatrix& w, const LinearOptions& options, const Rows& y) override;
  void DoLayerNorm(const Rows& x, WeightVector gain, WeightVector bias, float epsilon, const Rows& y) override;
  ProjectedHeads DoQkv(const Rows& x, const WeightMatrix& w, WeightVector bias, const AttentionShape& shape) override;
  void DoAttention(const ProjectedHeads& projected, const Rows& y) override;
  Storage DoAttentionStorage(Precision precision) const override;
  void DoConvert(const Rows& x, const Rows& y) override;
  KeyValues DoEmptyKeyValues(int64_t capacity, int heads, int head_size, Storage storage) override;
  void DoCopyKeyValues(const KeyValues& from, int64_t count, const KeyValues& to) override;
  void DoRmsNorm(const Rows& x, WeightVector gain, float epsilon, const Rows& y) override;
  void DoSwiGlu(const Rows& x, const Rows& y) override;
  Queries DoSplitHeads(const Rows& projected, int heads, const Rope& rope, int64_t position,
                       const KeyValues& cache) override;
  void DoMaskedAttention(const Queries& queries, const KeyValues& cache, const Mask& mask, const Rows& y) override;

  // How rows are stored by kernels. A check fails where this processor has no kernels for it.
  RowFormat FormatOf(Storage storage) const;
  const FormatKernels& KernelsOf(Precision precision) const;
  // Those for queries, keys and values in that storage.
  const FormatKernels& KernelsOf(Storage storage) const;
  // Runs the product x * w^T in tasks; rows of one task stay within a group of `group_rows`.
  void RunMatmul(const Rows& x, const WeightMatrix& w, int64_t group_rows, FunctionRef<void(const MatmulTask&)> run);
  // Runs a kernel from x into the rows of y; `parameters` says what is not plain from them.
  void RunRows(const float* x, const Rows& y, void (*kernel)(const RowTask&), const RowTask& parameters);
  // Runs attention for `matrices` matrices of `rows` query rows; place(i, task) says where matrix i lies.
  void RunAttention(const FormatKernels& kernels, int64_t matrices, int64_t rows, const AttentionTask& parameters,
                    FunctionRef<void(int64_t matrix, AttentionTask& task)> place);
  // Scratch of at least `floats` for every member of the team.
  void ReserveScratch(int64_t floats);
  float* ScratchOf(int member) const;

  const CpuKernels& kernels_;
  const std::string isa_;
  mutable ThreadTeam team_;  // packing changes nothing else
  BlockShares shares_;
  MemoryPool pool_;
  // Apart from the other: a block kept here would be missing there in the next request.
  MemoryPool scratch_pool_;
  std::vector<std::shared_ptr<DeviceBlock>> scratch_;
};

}  // namespace sightline::cpu
