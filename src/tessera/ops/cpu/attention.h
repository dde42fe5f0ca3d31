#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// Element (b, t, h, c) stands at b * batch + t * token + h * head + c.
struct HeadStrides {
  std::int64_t batch = 0;
  std::int64_t token = 0;
  std::int64_t head = 0;
};

/// What attention computes, whatever the direction. Query t of row b has global position query_start + t, key s has key_start + s.
/// Query t sees key s when all of these hold (p, j are the global positions of query and key):
///   causal: j <= p; window > 0: p - j < window; documents: document_begin[b, t] <= j;
///   padding: s < key_lengths[b] (and queries t >= query_lengths[b] see nothing).
/// logit = softcap(scale * q·k), softcap(u) = cap * tanh(u / cap); the softmax runs over the visible keys and, where there is one, the head's sink.
/// A query that sees no key has output 0, lse -infinity (the sink's logit with a sink), and no gradient.
struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t query_length = 0;  ///< T
  std::int64_t key_length = 0;    ///< S
  std::int64_t heads = 0;         ///< H
  std::int64_t key_heads = 0;     ///< K, divides H; head h uses key head h / (H / K)
  std::int64_t head_dim = 0;      ///< C
  std::int64_t value_dim = 0;     ///< width of v and out
  float scale = 1.0f;
  float softcap = 0.0f;     ///< 0: none
  std::int64_t window = 0;  ///< 0: none
  std::int64_t query_start = 0;
  std::int64_t key_start = 0;
  const std::int64_t* document_begin = nullptr;  ///< [batch, T] global positions, non-decreasing along a row; null: no documents
  const std::int64_t* query_lengths = nullptr;   ///< [batch]; null: no padding
  const std::int64_t* key_lengths = nullptr;     ///< [batch]
  const float* sinks = nullptr;                  ///< [H] logits
  float dropout = 0.0f;                          ///< probability, of attention weights; keep mask dropout.h with
  std::uint64_t dropout_key = 0;          ///<   dropout_row_key(key, sample, head_start + h, global query position), element = global key position
  std::int64_t head_start = 0;            ///< global number of head 0
  const std::int64_t* samples = nullptr;  ///< [batch] sample numbers; null: the batch index
};

/// Fills document_begin ([length]) of one row from boundaries 0 = cu[0] < cu[1] < ... <= length; tokens past the last boundary form a document of
/// their own. `start` is the global position of token 0 (boundaries are local).
void document_begins(const std::int64_t* boundaries, std::int64_t num_boundaries, std::int64_t length, std::int64_t start,
                     std::int64_t* document_begin);

/// Flash-style: no T × S buffer. O is the type of the output: T, or float where partial results are merged later.
/// Instantiated for (float, float), (bfloat16, bfloat16), (bfloat16, float).
template <class T, class O = T>
struct AttentionForward {
  AttentionShape shape;
  const T* query = nullptr;
  HeadStrides query_strides = {};
  const T* key = nullptr;
  HeadStrides key_strides = {};
  const T* value = nullptr;
  HeadStrides value_strides = {};
  O* output = nullptr;
  HeadStrides output_strides = {};
  float* lse = nullptr;  ///< [batch, H, T], may be null
};
template <class T, class O>
void attention_forward(const AttentionForward<T, O>& args, Isa isa = best_isa());

/// Gradients are written, not added. lse may be the global one of a softmax over more keys than these (ring attention), with `output` the merged
/// output: then the results are this block's share. G is the type of the gradients; instantiated as AttentionForward.
/// Bitwise repeatable for a given number of threads. The query gradients never depend on that number; the gradients of keys, values and sinks do
/// where there are fewer than 2 × threads pairs of batch row and key head: each pair's queries are then split over threads, and the parts summed at
/// the end.
template <class T, class G = T>
struct AttentionBackward {
  AttentionShape shape;
  const T* query = nullptr;
  HeadStrides query_strides = {};
  const T* key = nullptr;
  HeadStrides key_strides = {};
  const T* value = nullptr;
  HeadStrides value_strides = {};
  const T* output = nullptr;
  HeadStrides output_strides = {};
  const float* lse = nullptr;  ///< [batch, H, T]
  const T* output_gradient = nullptr;
  HeadStrides output_gradient_strides = {};
  G* query_gradient = nullptr;
  HeadStrides query_gradient_strides = {};
  G* key_gradient = nullptr;
  HeadStrides key_gradient_strides = {};
  G* value_gradient = nullptr;
  HeadStrides value_gradient_strides = {};
  float* sink_gradient = nullptr;  ///< [H], added to; null: not wanted
};
template <class T, class G>
void attention_backward(const AttentionBackward<T, G>& args, Isa isa = best_isa());

/// One query per row over a cache: query [batch, H, C], cached key [batch, S, K, C] by strides, lengths[b] valid entries of row b; the query is the
/// last of them (position lengths[b] - 1), so `window` keeps the last `window` entries. Output [batch, H, value_dim].
template <class T>
struct DecodeAttention {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  float scale = 1.0f;
  float softcap = 0.0f;
  std::int64_t window = 0;
  const float* sinks = nullptr;
  const std::int64_t* lengths = nullptr;  ///< [batch]
  const T* query = nullptr;
  HeadStrides query_strides = {};  ///< token unused
  const T* key = nullptr;
  HeadStrides key_strides = {};
  const T* value = nullptr;
  HeadStrides value_strides = {};
  T* output = nullptr;
  HeadStrides output_strides = {};  ///< token unused
};
template <class T>
void decode_attention(const DecodeAttention<T>& args, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
