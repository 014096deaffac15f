//! N-gram counting by one sort.
//!
//! A window of up to `order` items is packed into one integer, first item in the highest bits.
//! Sorted once, the windows are sorted by *every* prefix: all orders are counted by merging, with
//! no hash table.

use std::collections::HashMap;

/// Bits of one packed item: a character (21) or a word number (32).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// Characters; up to 6 to a window.
    Character,
    /// Numbers given by [`Vocabulary`], below `u32::MAX`; up to 4 to a window.
    Word,
}

impl Item {
    const fn bits(self) -> u32 {
        match self {
            Self::Character => 21,
            Self::Word => 32,
        }
    }

    /// The longest n-gram that fits.
    pub const fn order_max(self) -> usize {
        (u128::BITS / self.bits()) as usize
    }
}

/// All windows of one text, sorted.
#[derive(Debug, Clone)]
pub struct Windows {
    keys: Vec<u128>,
    item: Item,
    order: usize,
}

impl Windows {
    /// Packs the windows of up to `order` items; `order` is cut to what fits.
    pub fn new(items: impl Iterator<Item = u32>, item: Item, order: usize) -> Self {
        let order = order.min(item.order_max());
        let width = item.bits() * order as u32;
        // Items are stored plus one: zero marks the end of the text.
        let mut keys: Vec<u128> = items.map(|item| u128::from(item) + 1).collect();
        let mut following: u128 = 0;
        for key in keys.iter_mut().rev() {
            following = (following >> item.bits()) | (*key << (width.saturating_sub(item.bits())));
            *key = following;
        }
        keys.sort_unstable();
        Self { keys, item, order }
    }

    /// Windows of the characters of a text.
    pub fn of_chars(chars: impl Iterator<Item = char>, order: usize) -> Self {
        Self::new(chars.map(u32::from), Item::Character, order)
    }

    /// Number of n-grams of order `n`, from 1.
    pub fn total(&self, n: usize) -> u64 {
        (self.keys.len() + 1).saturating_sub(n) as u64
    }

    /// The n-grams of order `n` that both sides have, each counted as often as on the side with
    /// fewer; with several references, the reference that has most of it.
    pub fn matched(&self, references: &[&Self], n: usize) -> u64 {
        let mut cursors = vec![0; references.len()];
        let mut matched = 0;
        let mut at = 0;
        while let Some((gram, count)) = self.run(&mut at, n) {
            let most = references.iter().zip(&mut cursors).map(|(reference, cursor)| {
                reference.skip_below(cursor, gram, n);
                reference.count_equal(*cursor, gram, n)
            });
            matched += count.min(most.max().unwrap_or(0));
        }
        matched
    }

    /// The n-gram of order `n` at the head of a window; `None` if the window is too short.
    fn gram(&self, key: u128, n: usize) -> Option<u128> {
        let gram = key >> (self.item.bits() * (self.order - n) as u32);
        (gram & ((1 << self.item.bits()) - 1) != 0).then_some(gram)
    }

    /// The next n-gram and how often it occurs; moves `at` past it.
    fn run(&self, at: &mut usize, n: usize) -> Option<(u128, u64)> {
        let gram = loop {
            match self.gram(*self.keys.get(*at)?, n) {
                Some(gram) => break gram,
                None => *at += 1,
            }
        };
        let count = self.count_equal(*at, gram, n);
        *at += count as usize;
        Some((gram, count))
    }

    fn skip_below(&self, at: &mut usize, gram: u128, n: usize) {
        let shift = self.item.bits() * (self.order - n) as u32;
        while self.keys.get(*at).is_some_and(|key| key >> shift < gram) {
            *at += 1;
        }
    }

    fn count_equal(&self, from: usize, gram: u128, n: usize) -> u64 {
        let shift = self.item.bits() * (self.order - n) as u32;
        self.keys[from..].iter().take_while(|key| **key >> shift == gram).count() as u64
    }
}

/// Gives equal words equal numbers.
#[derive(Debug, Default)]
pub struct Vocabulary {
    numbers: HashMap<Box<str>, u32>,
}

impl Vocabulary {
    pub fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(word.into(), number);
        number
    }

    /// The numbers of several words.
    pub fn numbers<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) -> Vec<u32> {
        words.into_iter().map(|word| self.number(word)).collect()
    }

    /// Number of distinct words seen.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether no word was seen.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn by_hash(text: &str, n: usize) -> HashMap<Vec<char>, u64> {
        let chars: Vec<char> = text.chars().collect();
        let mut counts = HashMap::new();
        for gram in chars.windows(n) {
            *counts.entry(gram.to_vec()).or_default() += 1;
        }
        counts
    }

    proptest! {
        #[test]
        fn agrees_with_counting_in_a_hash_table(
            a in "[ab\u{10ffff}\u{0}]{0,24}",
            b in "[ab\u{10ffff}\u{0}]{0,24}",
            c in "[ab]{0,12}",
        ) {
            let windows = |text: &str| Windows::of_chars(text.chars(), 6);
            let (hypothesis, first, second) = (windows(&a), windows(&b), windows(&c));
            for n in 1..=6 {
                let (counts, b, c) = (by_hash(&a, n), by_hash(&b, n), by_hash(&c, n));
                let zero = 0u64;
                let expected: u64 = counts
                    .iter()
                    .map(|(gram, count)| {
                        *count.min(b.get(gram).unwrap_or(&zero).max(c.get(gram).unwrap_or(&zero)))
                    })
                    .sum();
                prop_assert_eq!(hypothesis.matched(&[&first, &second], n), expected);
                prop_assert_eq!(hypothesis.total(n), counts.values().sum::<u64>());
            }
        }
    }

    #[test]
    fn large_word_numbers_fit() {
        let numbers = [u32::MAX - 1, 0, u32::MAX - 1, 0, 5];
        let windows = Windows::new(numbers.into_iter(), Item::Word, 4);
        assert_eq!(windows.matched(&[&windows], 2), 4);
        assert_eq!(windows.matched(&[&windows], 4), 2);
        assert_eq!(windows.total(6), 0);
        assert_eq!(windows.matched(&[], 1), 0);
    }
}
