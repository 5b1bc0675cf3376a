//! Reads a table by its rows: nothing that no row has, everything in its bounds, every fault at its place.
//!
//! ```text
//! Item (node and key path) ─ fields(rows) ─► Fields ─ number("vcpus"), time("warmup"), … ─► value or Fault
//! ```

use super::node::{Entry, Node, Value, quoted};
use super::rows::{KeyDefault, KeyType, MAX_LIST, Numbers, ScenarioKey};
use super::{Fault, time};
use crate::TimeDistribution;
use exitscope_units::Picos;
use std::borrow::Cow;

/// A value, and the keys that lead to it.
#[derive(Clone, Debug)]
pub(crate) struct Item<'a> {
    pub node: Cow<'a, Node>,
    pub path: String,
    /// The clock that times in cycles are of.
    pub clock_hz: u64,
}

impl<'a> Item<'a> {
    /// Something is wrong here.
    pub fn fault(&self, what: impl Into<String>) -> Fault {
        Fault { at: self.node.at, path: self.path.clone(), what: what.into() }
    }

    fn below<'b>(&self, node: &'b Node, path: String) -> Item<'b> {
        Item { node: Cow::Borrowed(node), path, clock_hz: self.clock_hz }
    }

    /// Opens a table.
    pub fn fields(&self, rows: &'static [ScenarioKey]) -> Result<Fields<'_>, Fault> {
        self.fields_of(rows.iter().collect())
    }

    /// Opens a table whose rows are in several lists.
    pub fn fields_of(&self, rows: Vec<&'static ScenarioKey>) -> Result<Fields<'_>, Fault> {
        let entries = self.entries()?;
        for entry in entries {
            if !rows.iter().any(|row| row.key == entry.key) {
                return Err(self.unknown(entry, "key", rows.iter().map(|row| row.key)));
            }
        }
        Ok(Fields { item: self, entries, rows })
    }

    /// The keys and values of a table.
    pub fn entries(&self) -> Result<&[Entry], Fault> {
        match &self.node.value {
            Value::Table(entries) => Ok(entries),
            _ => Err(self.fault(format!("{} is not a table", self.node.what()))),
        }
    }

    /// An entry of a table, as an item.
    pub fn entry<'b>(&self, entry: &'b Entry) -> Item<'b> {
        self.below(&entry.node, self.key(&entry.key))
    }

    /// The value of this key, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<Item<'_>> {
        self.entries().ok()?.iter().find(|entry| entry.key == key).map(|entry| self.entry(entry))
    }

    fn key(&self, key: &str) -> String {
        if self.path.is_empty() { short(key) } else { format!("{}.{}", self.path, short(key)) }
    }

    /// The key of this entry is not one of the known ones.
    pub fn unknown(&self, entry: &Entry, what: &str, known: impl Iterator<Item = &'static str>) -> Fault {
        let says = unknown(&entry.key, what, known);
        Fault { at: entry.at, path: self.key(&entry.key), what: says }
    }

    /// The items of a list.
    pub fn list(&self) -> Result<impl Iterator<Item = Item<'_>>, Fault> {
        match &self.node.value {
            Value::List(nodes) => {
                let item = |(at, node)| self.below(node, format!("{}[{at}]", self.path));
                Ok(nodes.iter().enumerate().map(item))
            }
            _ => Err(self.fault(format!("{} is not a list", self.node.what()))),
        }
    }

    /// The items of a list that is not too long.
    pub fn short_list(&self) -> Result<Vec<Item<'_>>, Fault> {
        let items: Vec<Item> = self.list()?.take(MAX_LIST + 1).collect();
        if items.len() > MAX_LIST { Err(self.fault(format!("more than {MAX_LIST}"))) } else { Ok(items) }
    }

    /// The tables of a list: `[[vm]]` and the like.
    pub fn tables(&self) -> Result<Vec<Item<'_>>, Fault> {
        if let Value::Table(_) = self.node.value {
            // The path without the numbers in it: vm[0].disk is written [[vm.disk]].
            let keys: String =
                self.path.split('[').map(|part| part.split_once(']').map_or(part, |part| part.1)).collect();
            return Err(self.fault(format!("there can be several: write [[{keys}]], not [{keys}]")));
        }
        self.short_list()
    }

    /// A text.
    pub fn text(&self) -> Result<&str, Fault> {
        self.node.as_text().ok_or_else(|| self.fault(format!("{} is not a text in quotes", self.node.what())))
    }

    /// A name.
    pub fn name(&self) -> Result<String, Fault> {
        const LONGEST: usize = 64;
        let name = self.text()?;
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match () {
            _ if name.is_empty() => Err(self.fault("a name cannot be empty")),
            _ if name.len() > LONGEST => Err(self.fault(format!("a name has at most {LONGEST} letters"))),
            _ if !name.chars().all(good) => {
                Err(self.fault(format!("{} is not a name: only letters, digits, - and _", quoted(name))))
            }
            _ => Ok(name.to_string()),
        }
    }

    /// A whole number.
    pub fn number(&self, of: &str, min: u64, max: u64) -> Result<u64, Fault> {
        let Value::Number(number) = self.node.value else {
            return Err(self.fault(format!("{} is not a {of}", self.node.what())));
        };
        match u64::try_from(number) {
            Ok(number) if number > max => Err(self.fault(format!("{number} is not a {of}: at most {max}"))),
            Ok(number) if number >= min => Ok(number),
            _ if number < 0 || number < i128::from(min) => {
                Err(self.fault(format!("{number} is not a {of}: at least {min}")))
            }
            _ => Err(self.fault(format!("this number is not a {of}: at most {max}"))),
        }
    }

    /// Yes or no.
    pub fn switch(&self) -> Result<bool, Fault> {
        match (&self.node.value, self.node.as_text()) {
            (Value::Switch(switch), _) => Ok(*switch),
            // As the kernel spells it, and so knobs.
            (_, Some("Y")) => Ok(true),
            (_, Some("N")) => Ok(false),
            _ => Err(self.fault(format!("{} is neither true nor false", self.node.what()))),
        }
    }

    /// The position of one of the words.
    pub fn word(&self, words: &[&'static str]) -> Result<usize, Fault> {
        let text = self.text()?;
        let unknown = || match nearest_name(text, words.iter().copied()) {
            Some(near) => {
                self.fault(format!("{} is none of {}; did you mean {near:?}?", quoted(text), words.join(", ")))
            }
            None if words.len() == 1 => self.fault(format!("{} is not {:?}", quoted(text), words[0])),
            None => self.fault(format!("{} is none of {}", quoted(text), words.join(", "))),
        };
        words.iter().position(|word| *word == text).ok_or_else(unknown)
    }

    /// A time.
    pub fn time(&self) -> Result<Picos, Fault> {
        let Some(text) = self.node.as_text() else {
            let what = self.node.what();
            return Err(self.fault(format!("{what} is not a time: a time is a text with a unit, such as \"12us\"")));
        };
        time::parse(text, self.clock_hz).map_err(|what| self.fault(what))
    }

    /// A time longer than zero.
    pub fn some_time(&self) -> Result<Picos, Fault> {
        match self.time()? {
            Picos::ZERO => Err(self.fault("zero is too short")),
            time => Ok(time),
        }
    }

    /// A time, or a distribution of times.
    pub fn span(&self) -> Result<TimeDistribution, Fault> {
        let two = |item: &Item, what: &str| -> Result<[Picos; 2], Fault> {
            let times: Vec<Picos> = item.short_list()?.iter().map(Item::time).collect::<Result<_, _>>()?;
            times.try_into().map_err(|_| item.fault(format!("two times are wanted: {what}")))
        };
        let Value::Table(entries) = &self.node.value else { return Ok(TimeDistribution::Fixed(self.time()?)) };
        const SHAPES: [&str; 3] = ["exponential", "uniform", "normal"];
        for entry in entries {
            if !SHAPES.contains(&entry.key.as_str()) {
                return Err(self.unknown(entry, "distribution", SHAPES.into_iter()));
            }
        }
        let [entry] = &entries[..] else {
            return Err(self.fault("one distribution is wanted, such as { exponential = \"12us\" }"));
        };
        let item = self.entry(entry);
        match entry.key.as_str() {
            "exponential" => Ok(TimeDistribution::Exponential(item.some_time()?)),
            "uniform" => match two(&item, "the shortest and the longest")? {
                [low, high] if low < high => Ok(TimeDistribution::Uniform(low, high)),
                _ => Err(item.fault("the second time must be longer than the first")),
            },
            _ => match two(&item, "the mean and the standard deviation")? {
                [Picos::ZERO, _] => Err(item.fault("a mean of zero is too short")),
                [mean, deviation] => Ok(TimeDistribution::Normal(mean, deviation)),
            },
        }
    }

    /// A time longer than zero, or a distribution.
    pub fn some_span(&self) -> Result<TimeDistribution, Fault> {
        match self.span()? {
            TimeDistribution::ZERO => Err(self.fault("zero is too short")),
            span => Ok(span),
        }
    }

    /// Numbers below `bound` of what is called `of`: `[0, 1, 2]` or `"0-2"`. No number twice.
    pub fn set(&self, of: &str, bound: u32) -> Result<Vec<u32>, Fault> {
        let outside = |item: &Item, number: &dyn std::fmt::Display| {
            item.fault(format!("there is no {of} {number}: they are 0 to {}", bound.saturating_sub(1)))
        };
        let mut seen = vec![false; bound as usize];
        let mut numbers = Vec::new();
        let mut add = |item: &Item, number: u32| match seen.get_mut(number as usize) {
            Some(seen) if *seen => Err(item.fault(format!("{of} {number} twice"))),
            Some(seen) => {
                *seen = true;
                numbers.push(number);
                Ok(())
            }
            None => Err(outside(item, &number)),
        };
        if let Some(text) = self.node.as_text() {
            let wanted = || self.fault(format!("{} is no list such as \"0-3,8\"", quoted(text)));
            for range in text.split(',').map(str::trim) {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wanted());
                let (first, last) = (number(first)?, number(last)?);
                match last {
                    _ if last < first => return Err(wanted()),
                    _ if last >= bound => return Err(outside(self, &last)),
                    _ => (first..=last).try_for_each(|number| add(self, number))?,
                }
            }
        } else {
            for item in self.list()? {
                match item.node.value {
                    Value::Number(number) => match u32::try_from(number) {
                        Ok(number) => add(&item, number)?,
                        Err(_) => return Err(outside(&item, &number)),
                    },
                    _ => return Err(item.fault(format!("{} is not the number of a {of}", item.node.what()))),
                }
            }
        }
        if numbers.is_empty() { Err(self.fault(format!("a list without any {of}"))) } else { Ok(numbers) }
    }
}

/// The beginning of a key, if it is long.
fn short(key: &str) -> String {
    key.chars().take(64).collect()
}

/// `word` is not among the `known` ones of `what`: which may have been meant, or which there are.
pub(crate) fn unknown<'a>(word: &str, what: &str, known: impl Iterator<Item = &'a str>) -> String {
    const FEW: usize = 12;
    let known: Vec<&str> = known.collect();
    let says = format!("there is no {what} {}", quoted(word));
    match nearest_name(word, known.iter().copied()) {
        Some(near) => format!("{says}; did you mean {near:?}?"),
        None if (1..=FEW).contains(&known.len()) => format!("{says}: there is {}", known.join(", ")),
        None => says,
    }
}

/// Which of the known words may have been meant.
pub fn nearest_name<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = short(word);
    let distance = |other: &&str| strsim::osa_distance(&word, other);
    known.min_by_key(distance).filter(|near| distance(near) <= (near.len().min(9) + 1) / 3)
}

/// An open table.
pub(crate) struct Fields<'a> {
    pub item: &'a Item<'a>,
    entries: &'a [Entry],
    rows: Vec<&'static ScenarioKey>,
}

impl Fields<'_> {
    fn row(&self, key: &str) -> &'static ScenarioKey {
        match self.rows.iter().find(|row| row.key == key) {
            Some(row) => row,
            None => unreachable!("{key}: the reader asks for a key without a row"),
        }
    }

    /// The value of this key, if it is there.
    pub fn find(&self, key: &str) -> Option<Item<'_>> {
        debug_assert_eq!(self.row(key).key, key);
        self.entries.iter().find(|entry| entry.key == key).map(|entry| self.item.entry(entry))
    }

    /// The value of this key, or what its row says for want of it.
    pub fn need(&self, key: &str) -> Result<Item<'_>, Fault> {
        if let Some(item) = self.find(key) {
            return Ok(item);
        }
        let row = self.row(key);
        let KeyDefault::Means(value) = row.absent else {
            return Err(self.item.fault(format!("{key:?} is missing; it takes: {}", row.kind)));
        };
        let node = Node::value(value, self.item.node.at)?;
        Ok(Item { node: Cow::Owned(node), path: self.item.key(key), clock_hz: self.item.clock_hz })
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<String, Fault> {
        self.need(key)?.text().map(str::to_string)
    }

    /// A name.
    pub fn name(&self, key: &str) -> Result<String, Fault> {
        self.need(key)?.name()
    }

    /// Yes or no.
    pub fn switch(&self, key: &str) -> Result<bool, Fault> {
        self.need(key)?.switch()
    }

    /// A number in its row's bounds.
    pub fn number<T: TryFrom<u64>>(&self, key: &str) -> Result<T, Fault> {
        let item = self.need(key)?;
        let number = match self.row(key).kind {
            KeyType::Number(of, min, max) => item.number(of, min, max)?,
            KeyType::OneOf(of, numbers) => {
                let number = item.number(of, 0, u64::MAX)?;
                if !numbers.contains(&number) {
                    return Err(item.fault(format!("{number} is not a {of}: {}", Numbers(numbers))));
                }
                number
            }
            _ => unreachable!("{key}: a number of a row without bounds"),
        };
        T::try_from(number).map_err(|_| item.fault(format!("{number} does not fit")))
    }

    /// The position of the word among its row's.
    pub fn word(&self, key: &str) -> Result<usize, Fault> {
        match self.row(key).kind {
            KeyType::Word(words) => self.need(key)?.word(words),
            _ => unreachable!("{key}: a word of a row without words"),
        }
    }

    /// A time.
    pub fn time(&self, key: &str) -> Result<Picos, Fault> {
        match self.row(key).kind {
            KeyType::SomeTime => self.need(key)?.some_time(),
            _ => self.need(key)?.time(),
        }
    }

    /// A time or a distribution.
    pub fn span(&self, key: &str) -> Result<TimeDistribution, Fault> {
        match self.row(key).kind {
            KeyType::SomeSpan => self.need(key)?.some_span(),
            _ => self.need(key)?.span(),
        }
    }
}
