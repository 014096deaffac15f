//! Edit distance over characters.
//!
//! Bit-parallel after Myers (1999) in the form of Hyyrö (2003): one step per character and per 64
//! characters of the shorter text. It is ours because the usual table is slower on all but single
//! words. Random ASCII pairs that differ in an eighth of their characters, on one core of an AMD EPYC,
//! with strsim 0.11 and with the table over a reused buffer, one after DataFusion's:
//!
//! | characters | here | strsim | table with a buffer |
//! |---:|---:|---:|---:|
//! | 5 | 49 ns | 47 ns | 30 ns |
//! | 17 | 80 ns | 343 ns | 272 ns |
//! | 71 | 353 ns | 5,565 ns | 4,705 ns |
//! | 239 | 4,165 ns | 64,363 ns | 54,406 ns |

use std::collections::HashMap;

/// Number of insertions, deletions and substitutions of characters between two texts.
pub fn levenshtein(left: &str, right: &str) -> usize {
    if left.is_ascii() && right.is_ascii() {
        return distance(left.as_bytes(), right.as_bytes());
    }
    let chars = |text: &str| text.chars().map(u32::from).collect::<Vec<u32>>();
    distance(&chars(left), &chars(right))
}

/// 1 - distance / length of the longer text, in characters; 1 for two empty texts.
pub fn levenshtein_similarity(left: &str, right: &str) -> f64 {
    let longer = left.chars().count().max(right.chars().count());
    if longer == 0 { 1.0 } else { 1.0 - levenshtein(left, right) as f64 / longer as f64 }
}

fn distance<T: Copy + Eq + Into<u32>>(left: &[T], right: &[T]) -> usize {
    let prefix = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let (left, right) = (&left[prefix..], &right[prefix..]);
    let suffix = left.iter().rev().zip(right.iter().rev()).take_while(|(a, b)| a == b).count();
    let (left, right) = (&left[..left.len() - suffix], &right[..right.len() - suffix]);
    let (pattern, text) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    match pattern.len() {
        0 => text.len(),
        1..=64 => short(pattern, text),
        _ => long(pattern, text),
    }
}

/// Where a character occurs in a block of the pattern.
struct Positions {
    ascii: [u64; 128],
    other: HashMap<u32, u64>,
}

impl Positions {
    fn new<T: Copy + Into<u32>>(block: &[T]) -> Self {
        let mut positions = Self { ascii: [0; 128], other: HashMap::new() };
        for (bit, c) in block.iter().enumerate() {
            let c: u32 = (*c).into();
            match positions.ascii.get_mut(c as usize) {
                Some(mask) => *mask |= 1 << bit,
                None => *positions.other.entry(c).or_default() |= 1 << bit,
            }
        }
        positions
    }

    fn of(&self, c: u32) -> u64 {
        match self.ascii.get(c as usize) {
            Some(mask) => *mask,
            None => self.other.get(&c).copied().unwrap_or(0),
        }
    }
}

/// Vertical differences of one block of 64 rows: +1 where `up`, -1 where `down`.
#[derive(Clone, Copy)]
struct Column {
    up: u64,
    down: u64,
}

impl Column {
    const START: Self = Self { up: !0, down: 0 };

    /// Advances by one character. `carry` is the horizontal difference that enters at the top;
    /// the differences that leave at every row are returned as (+1, -1) masks.
    fn advance(&mut self, equal: u64, carry: i8) -> (u64, u64) {
        let entering_down = u64::from(carry < 0);
        let diagonal = equal | self.down;
        let equal = equal | entering_down;
        let zero = (((equal & self.up).wrapping_add(self.up)) ^ self.up) | equal;
        let plus = self.down | !(zero | self.up);
        let minus = self.up & zero;
        let shifted_plus = (plus << 1) | u64::from(carry > 0);
        let shifted_minus = (minus << 1) | entering_down;
        self.up = shifted_minus | !(diagonal | shifted_plus);
        self.down = shifted_plus & diagonal;
        (plus, minus)
    }
}

fn short<T: Copy + Into<u32>>(pattern: &[T], text: &[T]) -> usize {
    let positions = Positions::new(pattern);
    let last = 1u64 << (pattern.len() - 1);
    let mut column = Column::START;
    let mut distance = pattern.len();
    for c in text {
        let (plus, minus) = column.advance(positions.of((*c).into()), 1);
        distance = distance + usize::from(plus & last != 0) - usize::from(minus & last != 0);
    }
    distance
}

fn long<T: Copy + Into<u32>>(pattern: &[T], text: &[T]) -> usize {
    let blocks: Vec<Positions> = pattern.chunks(64).map(Positions::new).collect();
    let mut columns = vec![Column::START; blocks.len()];
    let last = 1u64 << ((pattern.len() - 1) % 64);
    let mut distance = pattern.len();
    for c in text {
        let c: u32 = (*c).into();
        let mut carry = 1;
        for (index, (positions, column)) in blocks.iter().zip(&mut columns).enumerate() {
            let (plus, minus) = column.advance(positions.of(c), carry);
            let bottom = if index + 1 == blocks.len() { last } else { 1 << 63 };
            carry = i8::from(plus & bottom != 0) - i8::from(minus & bottom != 0);
        }
        distance = distance.saturating_add_signed(isize::from(carry));
    }
    distance
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text-book table.
    fn by_table(left: &str, right: &str) -> usize {
        let right: Vec<char> = right.chars().collect();
        let mut row: Vec<usize> = (0..=right.len()).collect();
        for (i, a) in left.chars().enumerate() {
            let mut diagonal = row[0];
            row[0] = i + 1;
            for (j, b) in right.iter().enumerate() {
                let substituted = diagonal + usize::from(a != *b);
                diagonal = row[j + 1];
                row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
            }
        }
        row[right.len()]
    }

    #[test]
    fn known_distances() {
        assert_eq!(levenshtein("kitten", "sitting"), 3);
        assert_eq!(levenshtein("", "äbc"), 3);
        assert_eq!(levenshtein("é", "e\u{301}"), 2);
        assert_eq!(levenshtein_similarity("", ""), 1.0);
        assert_eq!(levenshtein_similarity("abcd", "abxd"), 0.75);
    }

    proptest! {
        #[test]
        fn agrees_with_the_table(a in "[abcé中]{0,150}", b in "[abcé中]{0,150}") {
            prop_assert_eq!(levenshtein(&a, &b), by_table(&a, &b));
        }

        #[test]
        fn agrees_with_the_table_on_ascii(a in "[ab]{50,220}", b in "[ab]{50,220}") {
            prop_assert_eq!(levenshtein(&a, &b), by_table(&a, &b));
        }
    }
}
