//! Rows as canonical bytes: the same for the same values, however a table is cut, encoded or compressed.
//!
//! A row is an array in CBOR (RFC 8949) of its values, in the order of the columns, with the deterministic
//! encoding of section 4.2.1, but floats always with all bits of their type. Names, types, units and scales
//! are those of the schema. `docs/specs/store.md` specifies it for other programs.

use arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch, RunArray,
};
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type,
    Decimal64Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, RunEndIndexType, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};

const NULL: u8 = 0xf6;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
/// Major types of CBOR, in the upper three bits of the first byte.
const POSITIVE: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const TAG: u8 = 6;
/// Tags of whole numbers beyond 64 bits.
const BIG_POSITIVE: u64 = 2;
const BIG_NEGATIVE: u64 = 3;

/// Appends the value of one row.
type Encode<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + 'a>;

/// The rows of `batch` one after the other, each as its canonical bytes; `None` if a column has a type that no table can
/// hold.
pub fn for_each_row(batch: &RecordBatch, mut take: impl FnMut(&[u8])) -> Option<()> {
    let columns: Option<Vec<Encode<'_>>> =
        batch.columns().iter().map(|column| encoder(column.as_ref())).collect();
    let (columns, mut bytes) = (columns?, Vec::new());
    for row in 0..batch.num_rows() {
        bytes.clear();
        head(ARRAY, columns.len() as u64, &mut bytes);
        columns.iter().for_each(|column| column(row, &mut bytes));
        take(&bytes);
    }
    Some(())
}

/// Encodes the values of a column, NULL included.
fn encoder(array: &dyn Array) -> Option<Encode<'_>> {
    let value = values(array)?;
    Some(match array.nulls() {
        None => value,
        Some(nulls) => Box::new(move |row, out| match nulls.is_null(row) {
            true => out.push(NULL),
            false => value(row, out),
        }),
    })
}

/// Encodes the values of a column where they are not NULL.
fn values(array: &dyn Array) -> Option<Encode<'_>> {
    Some(match array.data_type() {
        DataType::Null => Box::new(|_, out| out.push(NULL)),
        DataType::Boolean => {
            let array = array.as_boolean();
            Box::new(|row, out| out.push(if array.value(row) { TRUE } else { FALSE }))
        }
        DataType::Int8 => int::<Int8Type>(array),
        DataType::Int16 => int::<Int16Type>(array),
        DataType::Int32 => int::<Int32Type>(array),
        DataType::Int64 => int::<Int64Type>(array),
        DataType::UInt8 => int::<UInt8Type>(array),
        DataType::UInt16 => int::<UInt16Type>(array),
        DataType::UInt32 => int::<UInt32Type>(array),
        DataType::UInt64 => int::<UInt64Type>(array),
        DataType::Date32 => int::<Date32Type>(array),
        DataType::Date64 => int::<Date64Type>(array),
        DataType::Time32(TimeUnit::Second) => int::<Time32SecondType>(array),
        DataType::Time32(_) => int::<Time32MillisecondType>(array),
        DataType::Time64(TimeUnit::Nanosecond) => int::<Time64NanosecondType>(array),
        DataType::Time64(_) => int::<Time64MicrosecondType>(array),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => int::<TimestampSecondType>(array),
            TimeUnit::Millisecond => int::<TimestampMillisecondType>(array),
            TimeUnit::Microsecond => int::<TimestampMicrosecondType>(array),
            TimeUnit::Nanosecond => int::<TimestampNanosecondType>(array),
        },
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => int::<DurationSecondType>(array),
            TimeUnit::Millisecond => int::<DurationMillisecondType>(array),
            TimeUnit::Microsecond => int::<DurationMicrosecondType>(array),
            TimeUnit::Nanosecond => int::<DurationNanosecondType>(array),
        },
        DataType::Decimal32(..) => int::<Decimal32Type>(array),
        DataType::Decimal64(..) => int::<Decimal64Type>(array),
        DataType::Decimal128(..) => int::<Decimal128Type>(array),
        DataType::Decimal256(..) => {
            let array = array.as_primitive::<Decimal256Type>();
            Box::new(|row, out| wide(array.value(row), out))
        }
        DataType::Float16 => {
            let array = array.as_primitive::<Float16Type>();
            Box::new(|row, out| {
                out.push(0xf9);
                out.extend_from_slice(&array.value(row).to_bits().to_be_bytes());
            })
        }
        DataType::Float32 => {
            let array = array.as_primitive::<Float32Type>();
            Box::new(|row, out| {
                out.push(0xfa);
                out.extend_from_slice(&array.value(row).to_bits().to_be_bytes());
            })
        }
        DataType::Float64 => {
            let array = array.as_primitive::<Float64Type>();
            Box::new(|row, out| {
                out.push(0xfb);
                out.extend_from_slice(&array.value(row).to_bits().to_be_bytes());
            })
        }
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            Box::new(|row, out| string(TEXT, array.value(row).as_bytes(), out))
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            Box::new(|row, out| string(TEXT, array.value(row).as_bytes(), out))
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            Box::new(|row, out| string(TEXT, array.value(row).as_bytes(), out))
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            Box::new(|row, out| string(BYTES, array.value(row), out))
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            Box::new(|row, out| string(BYTES, array.value(row), out))
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            Box::new(|row, out| string(BYTES, array.value(row), out))
        }
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            Box::new(|row, out| string(BYTES, array.value(row), out))
        }
        DataType::List(_) => list(array.as_list::<i32>())?,
        DataType::LargeList(_) => list(array.as_list::<i64>())?,
        DataType::FixedSizeList(_, length) => {
            let (list, length) = (array.as_fixed_size_list(), usize::try_from(*length).ok()?);
            let item = encoder(list.values().as_ref())?;
            Box::new(move |row, out| {
                head(ARRAY, length as u64, out);
                (row * length..(row + 1) * length).for_each(|at| item(at, out));
            })
        }
        DataType::Struct(_) => fields(array.as_struct().columns())?,
        DataType::Map(..) => {
            let map = array.as_map();
            let pair = fields(map.entries().columns())?;
            let offsets = map.value_offsets();
            Box::new(move |row, out| {
                let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
                head(ARRAY, (to - from) as u64, out);
                (from..to).for_each(|at| pair(at, out));
            })
        }
        DataType::Dictionary(key, _) => match key.as_ref() {
            DataType::Int8 => dictionary::<Int8Type>(array)?,
            DataType::Int16 => dictionary::<Int16Type>(array)?,
            DataType::Int32 => dictionary::<Int32Type>(array)?,
            DataType::Int64 => dictionary::<Int64Type>(array)?,
            DataType::UInt8 => dictionary::<UInt8Type>(array)?,
            DataType::UInt16 => dictionary::<UInt16Type>(array)?,
            DataType::UInt32 => dictionary::<UInt32Type>(array)?,
            DataType::UInt64 => dictionary::<UInt64Type>(array)?,
            _ => return None,
        },
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => runs::<Int16Type>(array)?,
            DataType::Int32 => runs::<Int32Type>(array)?,
            DataType::Int64 => runs::<Int64Type>(array)?,
            _ => return None,
        },
        DataType::Interval(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::Union(..) => return None,
    })
}

fn int<T: ArrowPrimitiveType<Native: Into<i128>>>(array: &dyn Array) -> Encode<'_> {
    let array = array.as_primitive::<T>();
    Box::new(|row, out| whole(array.value(row).into(), out))
}

fn list<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Option<Encode<'_>> {
    let (item, offsets) = (encoder(list.values().as_ref())?, list.value_offsets());
    Some(Box::new(move |row, out| {
        let (from, to) = (offsets[row].as_usize(), offsets[row + 1].as_usize());
        head(ARRAY, (to - from) as u64, out);
        (from..to).for_each(|at| item(at, out));
    }))
}

/// The values of several columns as an array.
fn fields(columns: &[ArrayRef]) -> Option<Encode<'_>> {
    let columns: Option<Vec<Encode<'_>>> =
        columns.iter().map(|column| encoder(column.as_ref())).collect();
    let columns = columns?;
    Some(Box::new(move |row, out| {
        head(ARRAY, columns.len() as u64, out);
        columns.iter().for_each(|column| column(row, out));
    }))
}

fn dictionary<K: ArrowDictionaryKeyType>(array: &dyn Array) -> Option<Encode<'_>> {
    let array = array.as_dictionary::<K>();
    let value = encoder(array.values().as_ref())?;
    Some(Box::new(move |row, out| match array.key(row) {
        Some(key) => value(key, out),
        None => out.push(NULL),
    }))
}

fn runs<R: RunEndIndexType>(array: &dyn Array) -> Option<Encode<'_>> {
    let array = array.as_any().downcast_ref::<RunArray<R>>()?;
    let value = encoder(array.values().as_ref())?;
    Some(Box::new(move |row, out| value(array.get_physical_index(row), out)))
}

/// The first bytes of an item: its type, and its length or value in the fewest bytes.
fn head(major: u8, value: u64, out: &mut Vec<u8>) {
    let major = major << 5;
    match value {
        0..24 => out.push(major | value as u8),
        24..0x100 => out.extend_from_slice(&[major | 24, value as u8]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend_from_slice(&(value as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 26);
            out.extend_from_slice(&(value as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

fn string(major: u8, bytes: &[u8], out: &mut Vec<u8>) {
    head(major, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn whole(value: i128, out: &mut Vec<u8>) {
    // -1 - value of a negative number, as CBOR has it.
    let (major, size) = match value < 0 {
        true => (NEGATIVE, !value as u128),
        false => (POSITIVE, value as u128),
    };
    match u64::try_from(size) {
        Ok(size) => head(major, size, out),
        Err(_) => big(major == NEGATIVE, &size.to_be_bytes(), out),
    }
}

fn wide(value: i256, out: &mut Vec<u8>) {
    match value.to_i128() {
        Some(value) => whole(value, out),
        None => {
            let is_negative = value.is_negative();
            let size = if is_negative { !value } else { value };
            big(is_negative, &size.to_be_bytes(), out);
        }
    }
}

fn big(is_negative: bool, size: &[u8], out: &mut Vec<u8>) {
    head(TAG, if is_negative { BIG_NEGATIVE } else { BIG_POSITIVE }, out);
    let zeros = size.iter().take_while(|byte| **byte == 0).count();
    string(BYTES, &size[zeros..], out);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Decimal128Array, Decimal256Array, DictionaryArray, Float32Array, Float64Array, Int8Array,
        Int32Array, Int64Array, LargeStringArray, ListArray, StringArray, StringViewArray,
        StructArray, TimestampMicrosecondArray, UInt64Array,
    };
    use arrow::datatypes::{Field, Schema};

    use super::*;
    use proofmill_base::digest::hex as hex_digits;

    fn hex(column: impl Array + 'static) -> Vec<String> {
        let field = Field::new("a", column.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(column)]).unwrap();
        let mut rows = Vec::new();
        let row = |bytes: &[u8]| {
            // An array of one item.
            assert_eq!(bytes[0], 0x81);
            rows.push(hex_digits(&bytes[1..]));
        };
        for_each_row(&batch, row).unwrap();
        rows
    }

    /// From appendix A of RFC 8949.
    #[test]
    fn values_are_those_of_the_rfc() {
        let ints = vec![
            0,
            1,
            10,
            23,
            24,
            25,
            100,
            1000,
            1_000_000,
            1_000_000_000_000,
            -1,
            -10,
            -100,
            -1000,
        ];
        let expected = [
            "00",
            "01",
            "0a",
            "17",
            "1818",
            "1819",
            "1864",
            "1903e8",
            "1a000f4240",
            "1b000000e8d4a51000",
            "20",
            "29",
            "3863",
            "3903e7",
        ];
        assert_eq!(hex(Int64Array::from(ints)), expected);
        assert_eq!(hex(UInt64Array::from(vec![u64::MAX])), ["1bffffffffffffffff"]);
        let wide = vec![
            18_446_744_073_709_551_616_i128,
            -18_446_744_073_709_551_616,
            -18_446_744_073_709_551_617,
        ];
        assert_eq!(
            hex(Decimal128Array::from(wide)),
            ["c249010000000000000000", "3bffffffffffffffff", "c349010000000000000000"]
        );
        assert_eq!(
            hex(Float64Array::from(vec![1.1, -4.1])),
            ["fb3ff199999999999a", "fbc010666666666666"]
        );
        assert_eq!(hex(Float32Array::from(vec![100_000.0])), ["fa47c35000"]);
        let texts = vec![Some(""), Some("a"), Some("\u{fc}"), Some("\u{6c34}"), None];
        let expected = ["60", "6161", "62c3bc", "63e6b0b4", "f6"];
        assert_eq!(hex(StringArray::from(texts.clone())), expected);
        assert_eq!(hex(LargeStringArray::from(texts.clone())), expected);
        assert_eq!(hex(StringViewArray::from(texts.clone())), expected);
        let words: DictionaryArray<Int8Type> = texts.into_iter().collect();
        assert_eq!(hex(words), expected);
        assert_eq!(hex(Int8Array::from(vec![-128])), ["387f"]);
    }

    #[test]
    fn nested_values_and_slices_come_out_whole() {
        let lists = vec![Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(-1)])];
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        assert_eq!(hex(lists.clone()), ["8201f6", "f6", "80", "8120"]);
        assert_eq!(hex(lists.slice(2, 2)), ["80", "8120"]);
        let field = |name: &str, kind: DataType| Arc::new(Field::new(name, kind, true));
        let pair = StructArray::from(vec![
            (field("a", DataType::Int32), Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
            (field("b", DataType::Utf8), Arc::new(StringArray::from(vec![Some("x"), None]))),
        ]);
        assert_eq!(hex(pair.clone()), ["82016178", "8202f6"]);
        assert_eq!(hex(pair.slice(1, 1)), ["8202f6"]);
        let instants = TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC");
        assert_eq!(hex(instants), ["01"]);
        let wide = [i256::from_i128(-1), i256::MAX, i256::MIN];
        let [one, max, min] =
            <[String; 3]>::try_from(hex(Decimal256Array::from(wide.to_vec()))).unwrap();
        assert_eq!((one.as_str(), max.len(), min.len()), ("20", 70, 70));
        assert!(max.starts_with("c258207fff") && min.starts_with("c358207fff"), "{max} {min}");
    }
}
