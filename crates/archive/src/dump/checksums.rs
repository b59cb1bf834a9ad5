//! BLAKE3 of many small files at once.
//!
//! BLAKE3 compresses blocks of 64 bytes one after the other in a chunk of 1 KiB, and chunks side by side in the
//! lanes of a vector. So a file of one or two chunks, hashed alone, leaves most lanes empty. Here the chunks of
//! different files share the lanes. The blake3 crate offers that to its own benchmarks only, so its version is
//! fixed, and a test compares all lengths with [`blake3::hash`].
//!
//! Source: the BLAKE3 paper, sections 2 and 5.3.

use blake3::IncrementCounter;
use blake3::platform::{MAX_SIMD_DEGREE, Platform, le_bytes_from_words_32, words_from_le_bytes_32};

const BLOCK: usize = blake3::BLOCK_LEN;
const CHUNK: usize = blake3::CHUNK_LEN;
/// Files with more chunks fill the lanes alone.
const MOST_CHUNKS: usize = 16;

const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const PARENT: u8 = 1 << 2;
const ROOT: u8 = 1 << 3;

/// The initial chaining value: that of SHA-256.
const IV: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// A chaining value.
type Value = [u8; blake3::OUT_LEN];

/// Hashes many at once, and keeps its memory between calls.
pub(super) struct Checksums {
    platform: Platform,
    chunks: Vec<Chunk>,
    /// The chaining values of all chunks, those of a file side by side.
    values: Vec<Value>,
    files: Vec<File>,
    out: Vec<Value>,
}

/// A chunk, in the order in which chunks can share the lanes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Chunk {
    /// The blocks that are compressed side by side with those of other chunks.
    blocks: u8,
    /// Its place in the file.
    counter: u8,
    is_root: bool,
    /// Its place in `values`.
    value: u32,
    /// The index of the file.
    file: u32,
}

/// The chaining values of a file that are left to be merged.
struct File {
    first: usize,
    values: usize,
}

impl Default for Checksums {
    fn default() -> Checksums {
        Checksums {
            platform: Platform::detect(),
            chunks: Vec::new(),
            values: Vec::new(),
            files: Vec::new(),
            out: Vec::new(),
        }
    }
}

impl Checksums {
    /// The checksums of `data`, in its order.
    pub(super) fn of(&mut self, data: &[&[u8]]) -> Vec<Value> {
        self.chunks.clear();
        self.values.clear();
        self.files.clear();
        for (file, data) in data.iter().enumerate() {
            self.add(file, data);
        }
        self.chunks.sort_unstable();
        self.compress_chunks(data);
        while self.merge() {}
        let files = self.files.iter();
        files.map(|file| self.values[file.first]).collect()
    }

    /// Adds the chunks of a file; the checksum itself if it is large.
    fn add(&mut self, file: usize, data: &[u8]) {
        let first = self.values.len();
        let count = data.len().div_ceil(CHUNK).max(1);
        if count > MOST_CHUNKS {
            self.values.push(*blake3::hash(data).as_bytes());
            self.files.push(File { first, values: 1 });
            return;
        }
        let is_root = count == 1;
        for counter in 0..count {
            let len = (data.len() - counter * CHUNK).min(CHUNK);
            let blocks = match is_root || len < CHUNK {
                true => len.saturating_sub(1) / BLOCK,
                false => CHUNK / BLOCK,
            };
            self.chunks.push(Chunk {
                blocks: blocks as u8,
                counter: counter as u8,
                is_root,
                value: (first + counter) as u32,
                file: file as u32,
            });
        }
        self.values.resize(first + count, Value::default());
        let values = count;
        self.files.push(File { first, values });
    }

    /// Compresses the blocks of all chunks.
    fn compress_chunks(&mut self, data: &[&[u8]]) {
        let mut inputs = Vec::new();
        let alike = |a: &Chunk, b: &Chunk| (a.blocks, a.counter) == (b.blocks, b.counter);
        for run in self.chunks.chunk_by(alike) {
            let (blocks, counter) = (usize::from(run[0].blocks), u64::from(run[0].counter));
            let start = usize::from(run[0].counter) * CHUNK;
            inputs.clear();
            inputs.extend(run.iter().map(|chunk| &data[chunk.file as usize][start..]));
            inputs.resize(fill_lanes(run.len()), inputs[0]);
            self.out.clear();
            self.out.resize(inputs.len(), Value::default());
            if blocks > 0 {
                LANES[blocks - 1](
                    &self.platform,
                    &inputs,
                    counter,
                    self.out.as_flattened_mut(),
                );
            }
            for ((chunk, input), value) in run.iter().zip(&inputs).zip(&self.out) {
                let value = match blocks {
                    16 => *value,
                    _ => last_block(&self.platform, chunk, input, value),
                };
                self.values[chunk.value as usize] = value;
            }
        }
    }

    /// Merges neighbours once in each file. `false` if nothing was left to merge.
    fn merge(&mut self) -> bool {
        let mut has_merged = false;
        for flags in [PARENT, PARENT | ROOT] {
            let is_next =
                |file: &&mut File| file.values > 1 && (file.values == 2) == (flags != PARENT);
            let (mut pairs, mut targets) = (Vec::new(), Vec::new());
            for file in self.files.iter_mut().filter(is_next) {
                let own = &mut self.values[file.first..file.first + file.values];
                pairs.extend(own.as_chunks::<2>().0.iter().map(join));
                targets.extend(file.first..file.first + own.len() / 2);
                if own.len() % 2 == 1 {
                    own[own.len() / 2] = own[own.len() - 1];
                }
                file.values = file.values.div_ceil(2);
            }
            let inputs: Vec<&[u8; BLOCK]> = pairs.iter().collect();
            self.out.clear();
            self.out.resize(pairs.len(), Value::default());
            let out = self.out.as_flattened_mut();
            self.platform
                .hash_many(&inputs, &IV, 0, IncrementCounter::No, flags, 0, 0, out);
            for (target, value) in targets.into_iter().zip(&self.out) {
                self.values[target] = *value;
            }
            has_merged |= !pairs.is_empty();
        }
        has_merged
    }
}

/// How many inputs take no longer than `count` of them: four lanes are as fast as two, and a number that is no power of
/// two takes several rounds.
fn fill_lanes(count: usize) -> usize {
    match count % MAX_SIMD_DEGREE {
        0 | 1 => count,
        rest => count - rest + rest.next_power_of_two().max(4),
    }
}

fn join([left, right]: &[Value; 2]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..left.len()].copy_from_slice(left);
    block[left.len()..].copy_from_slice(right);
    block
}

/// The chaining value of a chunk, of which the blocks before the last are compressed.
fn last_block(platform: &Platform, chunk: &Chunk, input: &[u8], before: &Value) -> Value {
    let done = usize::from(chunk.blocks) * BLOCK;
    let rest = &input[done..input.len().min(CHUNK)];
    let mut block = [0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    let mut value = match done {
        0 => IV,
        _ => words_from_le_bytes_32(before),
    };
    let mut flags = CHUNK_END;
    if done == 0 {
        flags |= CHUNK_START;
    }
    if chunk.is_root {
        flags |= ROOT;
    }
    let counter = chunk.counter.into();
    platform.compress_in_place(&mut value, &block, rest.len() as u8, counter, flags);
    le_bytes_from_words_32(&value)
}

/// Compresses the first blocks of chunks side by side.
type Lanes = fn(&Platform, &[&[u8]], u64, &mut [u8]);

/// By the number of blocks, less one.
const LANES: [Lanes; CHUNK / BLOCK] = [
    lanes::<64>,
    lanes::<128>,
    lanes::<192>,
    lanes::<256>,
    lanes::<320>,
    lanes::<384>,
    lanes::<448>,
    lanes::<512>,
    lanes::<576>,
    lanes::<640>,
    lanes::<704>,
    lanes::<768>,
    lanes::<832>,
    lanes::<896>,
    lanes::<960>,
    lanes::<CHUNK>,
];

fn lanes<const N: usize>(platform: &Platform, inputs: &[&[u8]], counter: u64, out: &mut [u8]) {
    let inputs: Vec<&[u8; N]> = inputs
        .iter()
        .filter_map(|input| input.first_chunk())
        .collect();
    let end = if N == CHUNK { CHUNK_END } else { 0 };
    platform.hash_many(
        &inputs,
        &IV,
        counter,
        IncrementCounter::No,
        0,
        CHUNK_START,
        end,
        out,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_have_the_checksums_of_blake3() {
        let mut checksums = Checksums::default();
        let bytes: Vec<u8> = (0..40_000u32).map(|n| ((n * n) >> 7) as u8).collect();
        // Many at once, one at a time, and with few others of the same length.
        let lengths =
            (0..5_000).chain([15 << 10, (16 << 10) - 1, 16 << 10, (16 << 10) + 1, 40_000]);
        let all: Vec<&[u8]> = lengths.map(|len| &bytes[bytes.len() - len..]).collect();
        for step in [all.len(), 1, 100] {
            for some in all.chunks(step) {
                let found = checksums.of(some);
                let expected = some.iter().map(|data| *blake3::hash(data).as_bytes());
                assert!(found.into_iter().eq(expected), "{step} at once");
            }
        }
        assert_eq!(checksums.of(&[]).len(), 0);
    }
}
