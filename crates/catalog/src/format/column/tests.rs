use std::sync::Arc;

use bytes::Bytes;
use parquet::column::page::PageReader;
use parquet::column::reader::get_column_reader;
use parquet::column::writer::get_column_writer;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArrayType, Int32Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use proptest::prelude::*;

use super::decode::runs;
use super::*;

fn column(of: &str) -> ColumnDescPtr {
    let message = format!("message m {{ {of} a; }}");
    SchemaDescriptor::new(Arc::new(parse_message_type(&message).unwrap())).column(0)
}

/// Encodes values in a chunk that has already encoded the same values once.
fn encoded(
    of: &str,
    how: ColumnEncoding,
    put: impl Fn(&mut Chunk, &mut PageCompressor),
) -> Encoded {
    let mut zstd = PageCompressor::new().unwrap();
    let mut chunk = Chunk::new(column(of), how, 8);
    put(&mut chunk, &mut zstd);
    let first = chunk.close(&mut zstd).unwrap();
    let bytes = first.bytes.clone();
    chunk.reuse(first.bytes);
    put(&mut chunk, &mut zstd);
    let second = chunk.close(&mut zstd).unwrap();
    assert_eq!((&second.bytes, second.checksum), (&bytes, first.checksum));
    second
}

fn page_reader(Encoded { bytes, close, .. }: &Encoded) -> SerializedPageReader<Bytes> {
    SerializedPageReader::new(
        Arc::new(bytes.clone()),
        &close.metadata,
        close.rows_written as usize,
        None,
    )
    .unwrap()
}

/// Decodes with the parquet crate: the values, and each row's definition level.
fn decode_by_library<D: DataType>(encoded: &Encoded) -> (Vec<D::T>, Vec<i16>) {
    let rows = encoded.close.rows_written as usize;
    let reader = get_column_reader(
        encoded.close.metadata.column_descr_ptr(),
        Box::new(page_reader(encoded)),
    );
    let mut reader = D::get_column_reader(reader).unwrap();
    let (mut values, mut there) = (Vec::new(), Vec::new());
    while reader
        .read_records(rows, Some(&mut there), None, &mut values)
        .unwrap()
        .0
        > 0
    {}
    (values, there)
}

fn pages(reader: &mut SerializedPageReader<Bytes>, rows: usize, is_optional: bool) -> Pages<'_> {
    Pages {
        pages: reader,
        rows,
        is_optional,
        // The parquet crate has already decompressed the pages.
        unpacked: None,
    }
}

fn names_of(encoded: &Encoded) -> Vec<Vec<u8>> {
    let rows = encoded.close.rows_written as usize;
    Names::read(pages(&mut page_reader(encoded), rows, false))
        .unwrap()
        .iter()
        .map(<[u8]>::to_vec)
        .collect()
}

/// Strategy for vectors with runs of equal values.
fn with_runs<T: Clone + std::fmt::Debug>(
    of: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Vec<T>> {
    let runs = proptest::collection::vec((of, 1..9usize), 1..60);
    runs.prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(value, n)| std::iter::repeat_n(value, n))
            .collect()
    })
}

proptest! {
    #[test]
    fn numbers_are_read_back(values in with_runs(any::<u32>()), is_raw in any::<bool>()) {
        let how = if is_raw { ColumnEncoding::Raw } else { ColumnEncoding::Plain };
        let encoded = encoded("required int32", how, |to, _| to.numbers(values.iter().map(|n| n.to_le_bytes())));
        let (library, _) = decode_by_library::<Int32Type>(&encoded);
        prop_assert!(library.iter().map(|n| n.cast_unsigned()).eq(values.iter().copied()));
        let mut ours = Vec::new();
        let mut reader = page_reader(&encoded);
        numbers(pages(&mut reader, values.len(), false), u32::from_le_bytes, |_, _| {}, &mut ours).unwrap();
        prop_assert_eq!(ours, values);
    }

    #[test]
    fn missing_values_are_read_back(values in with_runs(proptest::option::of(0..3u8)), are_alike in any::<bool>()) {
        let hash = |n: &u8| [if are_alike { 7 } else { *n }; 32];
        let values: Vec<Option<[u8; 32]>> = values.iter().map(|value| value.as_ref().map(hash)).collect();
        let encoded = encoded("optional fixed_len_byte_array(32)", ColumnEncoding::Raw, |to, _| to.maybe(values.iter().copied()));
        let (library, there) = decode_by_library::<FixedLenByteArrayType>(&encoded);
        prop_assert!(library.iter().map(|hash| hash.data()).eq(values.iter().flatten().map(|hash| &hash[..])));
        prop_assert!(there.iter().map(|there| *there == 1).eq(values.iter().map(Option::is_some)));
        let (mut ours, mut there) = (Vec::new(), Vec::new());
        let are = |is_there, rows| there.extend(std::iter::repeat_n(is_there, rows));
        let mut reader = page_reader(&encoded);
        numbers(pages(&mut reader, values.len(), true), |hash: [u8; 32]| hash, are, &mut ours).unwrap();
        prop_assert!(ours.iter().eq(values.iter().flatten()));
        prop_assert!(there.into_iter().eq(values.iter().map(Option::is_some)));
    }

    #[test]
    fn booleans_are_read_by_the_library(values in with_runs(any::<Option<bool>>())) {
        let encoded = encoded("optional boolean", ColumnEncoding::Plain, |to, _| {
            to.maybe(values.iter().map(|value| value.map(|is| [u8::from(is)])));
        });
        let (library, there) = decode_by_library::<BoolType>(&encoded);
        prop_assert!(library.iter().eq(values.iter().flatten()));
        prop_assert!(there.iter().map(|there| *there == 1).eq(values.iter().map(Option::is_some)));
    }

    /// Covers names with a dictionary, with a dictionary that fills up before the last name, and
    /// without a dictionary.
    #[test]
    fn names_are_read_back(names in with_runs(proptest::collection::vec(any::<u8>(), 0..40)), is_plain in any::<bool>()) {
        let how = if is_plain { ColumnEncoding::Plain } else { ColumnEncoding::Dictionary };
        let encoded = encoded("required binary", how, |to, zstd| {
            to.names(names.iter().map(|name| &name[..]), zstd).unwrap();
        });
        let (library, _) = decode_by_library::<ByteArrayType>(&encoded);
        prop_assert!(library.iter().map(ByteArray::data).eq(names.iter().map(|name| &name[..])));
        prop_assert_eq!(names_of(&encoded), names);
    }

    /// Unlike fathom, the parquet crate writes bit-packed groups.
    #[test]
    fn pages_of_the_library_are_read(names in with_runs("[a-z]{0,3}")) {
        let mut file = TrackedWrite::new(Vec::new());
        let properties = WriterProperties::builder().set_dictionary_enabled(true).build();
        let pages = Box::new(SerializedPageWriter::new(&mut file));
        let writer = get_column_writer(column("required binary"), properties.into(), pages);
        let mut writer = ByteArrayType::get_column_writer(writer).unwrap();
        let values: Vec<ByteArray> = names.iter().map(|name| name.as_str().into()).collect();
        writer.write_batch(&values, None, None).unwrap();
        let close = writer.close().unwrap();
        let encoded = Encoded { bytes: file.into_inner().unwrap().into(), close, checksum: 0 };
        prop_assert!(names_of(&encoded).iter().map(|name| &name[..]).eq(names.iter().map(|name| name.as_bytes())));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), bits in 0..33u32, left in 0..99usize) {
        let mut taken = 0;
        let all = runs(&bytes, bits, left, |_, times| {
            taken += times;
            Some(())
        });
        prop_assert_eq!(all.is_some(), taken == left);
    }
}

#[test]
fn pages_have_checksums() {
    let sound = encoded("required int32", ColumnEncoding::Raw, |to, _| {
        to.numbers((0..9u32).map(u32::to_le_bytes))
    });
    assert_eq!(crc32fast::hash(&sound.bytes), sound.checksum);
    assert!(
        page_reader(&sound)
            .get_next_page()
            .is_ok_and(|page| page.is_some())
    );
    let mut bytes = sound.bytes.to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    let damaged = Encoded {
        bytes: bytes.into(),
        ..sound
    };
    assert!(page_reader(&damaged).get_next_page().is_err());
}

#[test]
fn equal_values_are_stored_once() {
    let of = |value: fn(u64) -> u64| {
        encoded("required int64", ColumnEncoding::Raw, |to, _| {
            to.numbers((0..60_000).map(|n: u32| value(n.into()).to_le_bytes()))
        })
    };
    assert!(of(|_| 1 << 40).bytes.len() < 100);
    assert!(of(|n| n).bytes.len() > 8 * 60_000);
}

#[test]
fn numbers_have_limits_in_the_order_of_their_type() {
    let limits = |of: &str, values: [i64; 3]| {
        let encoded = encoded(of, ColumnEncoding::Plain, |to, _| {
            to.numbers(values.into_iter().map(i64::to_le_bytes))
        });
        match encoded.close.metadata.statistics() {
            Some(Statistics::Int64(s)) => Some((*s.min_opt().unwrap(), *s.max_opt().unwrap())),
            _ => None,
        }
    };
    assert_eq!(limits("required int64", [3, -1, 7]), Some((-1, 7)));
    assert_eq!(limits("required int64", [5, 5, 5]), Some((5, 5)));
    let byte_arrays = encoded("required binary", ColumnEncoding::Plain, |to, zstd| {
        to.names([&b"a"[..]].into_iter(), zstd).unwrap();
    });
    assert!(byte_arrays.close.metadata.statistics().is_none());
}
