//! What `--vary` says: a key and its values.
//!
//! ```text
//! key=a,b,c   key=lo..hi:steps   key=lo..hi:*factor   and lists of these: key=0,10us..1ms:*2
//! ```

/// Values of one key at most.
const MAX_VALUES: usize = 10_000;

/// A key and the values it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The key, as `--set` takes it.
    pub key: String,
    /// Its values, as they will be set.
    pub values: Vec<String>,
}

/// Several keys, each once; every combination of their values.
#[derive(Clone, Debug, Default)]
pub struct Axes(Vec<Axis>);

impl Axes {
    /// Of these keys, unless one occurs twice.
    pub fn new(axes: Vec<Axis>) -> Result<Axes, String> {
        let is_twice = |(at, axis): &(usize, &Axis)| axes[..*at].iter().any(|other| other.key == axis.key);
        match axes.iter().enumerate().find(is_twice) {
            Some((_, twice)) => Err(format!("--vary names {} twice", twice.key)),
            None => Ok(Axes(axes)),
        }
    }

    /// The keys and their values.
    pub fn all(&self) -> &[Axis] {
        &self.0
    }

    /// How many combinations there are.
    pub fn combinations(&self) -> u64 {
        self.0.iter().fold(1, |size, axis| size.saturating_mul(axis.values.len() as u64))
    }

    /// The keys and values of a combination; the first key's changes slowest.
    pub fn combination(&self, mut number: usize) -> Vec<(&str, &str)> {
        let mut values: Vec<(&str, &str)> = Vec::new();
        for Axis { key, values: of } in self.0.iter().rev() {
            values.push((key, &of[number % of.len()]));
            number /= of.len();
        }
        values.reverse();
        values
    }
}

/// Reads `key=values`.
pub fn parse(text: &str) -> Result<Axis, String> {
    let (key, list) =
        text.split_once('=').ok_or("a key, =, and its values, like halt_poll_ns=0,50us or =0us..200us:5")?;
    let mut values = Vec::new();
    for item in items(list) {
        match item.split_once("..") {
            Some((first, rest)) if first.starts_with(|c: char| c.is_ascii_digit()) => {
                values.extend(range(first, rest).map_err(|what| format!("{item}: {what}"))?);
            }
            _ if item.is_empty() => return Err("an empty value".to_string()),
            _ => values.push(item.to_string()),
        }
        if values.len() > MAX_VALUES {
            return Err(format!("more than {MAX_VALUES} values"));
        }
    }
    if let Some(twice) = values.iter().enumerate().find_map(|(at, value)| values[..at].contains(value).then_some(value))
    {
        return Err(format!("{twice} twice"));
    }
    Ok(Axis { key: key.trim().to_string(), values })
}

/// The items between commas, but not those within brackets or quotes.
fn items(list: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut begin) = (0, false, 0);
    let mut items = Vec::new();
    for (at, c) in list.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                items.push(list[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    items.push(list[begin..].trim());
    items
}

/// `first` and `last:steps` or `last:*factor`.
fn range(first: &str, rest: &str) -> Result<Vec<String>, String> {
    const HOW: &str = "a range is first..last:steps or first..last:*factor, like 0us..200us:5 or 10us..1ms:*2";
    let (last, steps) = rest.split_once(':').ok_or(HOW)?;
    let (first, last) = (Quantity::parse(first).ok_or(HOW)?, Quantity::parse(last).ok_or(HOW)?);
    let (low, high, unit) = Quantity::together(first, last).ok_or("the ends of the range have different units")?;
    let numbers = match steps.trim().strip_prefix('*') {
        Some(factor) => {
            let factor: f64 = factor.trim().parse().map_err(|_| HOW)?;
            if !(factor >= 1.01 && factor.is_finite()) {
                return Err("the factor must be more than 1.01".to_string());
            }
            if low == 0.0 {
                return Err(
                    "multiples of 0 are 0: begin above it, and put the 0 before, like 0,10us..1ms:*2".to_string()
                );
            }
            let multiples = std::iter::successors(Some(low), |number| Some(number * factor));
            multiples.take_while(|number| *number <= high * (1.0 + 1e-9)).collect::<Vec<_>>()
        }
        None => {
            let steps: usize = steps.trim().parse().map_err(|_| HOW)?;
            if !(2..=MAX_VALUES).contains(&steps) {
                return Err(format!("a range has 2 to {MAX_VALUES} steps"));
            }
            let step = (high - low) / (steps - 1) as f64;
            (0..steps).map(|at| low + step * at as f64).collect()
        }
    };
    if numbers.is_empty() {
        return Err("the range ends before it begins".to_string());
    }
    // Numbers without a unit are whole.
    let digits = if unit.is_empty() { 0 } else { 3 };
    let wanted = numbers.len();
    let mut values: Vec<String> =
        numbers.into_iter().map(|number| format!("{}{unit}", decimal(number, digits))).collect();
    values.dedup();
    match values.len() {
        found if found < wanted && unit.is_empty() && !steps.trim().starts_with('*') => {
            Err(format!("numbers without a unit are whole: there are only {found} values here, not {wanted}"))
        }
        _ => Ok(values),
    }
}

/// A number with at most so many digits behind the point, and no zeros at its end.
fn decimal(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// A number and its unit.
#[derive(Clone, Copy, Debug)]
struct Quantity<'a> {
    number: f64,
    unit: &'a str,
}

/// Units of time, from small to large, each 1000 times the one before.
const UNITS: [&str; 5] = ["ps", "ns", "us", "ms", "s"];

impl<'a> Quantity<'a> {
    fn parse(text: &'a str) -> Option<Quantity<'a>> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        Some(Quantity { number: text[..end].parse().ok()?, unit: text[end..].trim() })
    }

    /// Both numbers in the smaller of their units, and that unit. A number without one has the other's.
    fn together(first: Quantity<'a>, last: Quantity<'a>) -> Option<(f64, f64, &'a str)> {
        let place = |unit: &str| UNITS.iter().position(|other| *other == unit);
        match (first.unit, last.unit) {
            (a, b) if a == b || b.is_empty() => Some((first.number, last.number, a)),
            ("", b) => Some((first.number, last.number, b)),
            (a, b) => {
                let (at, other) = (place(a)?, place(b)?);
                let least = at.min(other);
                let scale = |from: usize| 1_000f64.powi((from - least) as i32);
                Some((first.number * scale(at), last.number * scale(other), if at < other { a } else { b }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        parse(&format!("key={text}")).unwrap().values
    }

    #[test]
    fn lists_and_ranges_become_values() {
        for (text, expected) in [
            ("a,b,c", "a b c"),
            ("N, Y", "N Y"),
            ("0us..200us:5", "0us 50us 100us 150us 200us"),
            ("0..200us:3", "0us 100us 200us"),
            ("1..4:4", "1 2 3 4"),
            ("4..1:4", "4 3 2 1"),
            ("0us..1us:4", "0us 0.333us 0.667us 1us"),
            ("1..20:*2", "1 2 4 8 16"),
            ("0,250us..1ms:*2", "0 250us 500us 1000us"),
            ("100 cycles..400 cycles:*2", "100cycles 200cycles 400cycles"),
        ] {
            assert_eq!(values(text).join(" "), expected, "{text}");
        }
        assert_eq!(values(r#"[0, 1],{ uniform = ["1us", "2us"] }"#), ["[0, 1]", r#"{ uniform = ["1us", "2us"] }"#]);
        assert_eq!(values("a..b"), ["a..b"], "no range, because no number");
    }

    #[test]
    fn the_first_key_changes_slowest() {
        let axes = Axes::new(["a=1,2", "b=x,y,z"].map(|text| parse(text).unwrap()).into()).unwrap();
        assert_eq!(axes.combinations(), 6);
        let all: Vec<String> =
            (0..6).map(|number| axes.combination(number).iter().map(|row| row.1).collect()).collect();
        assert_eq!(all, ["1x", "1y", "1z", "2x", "2y", "2z"]);
        assert_eq!(axes.combination(4), [("a", "2"), ("b", "y")]);
        let twice = vec![parse("a=1").unwrap(), parse("a=2").unwrap()];
        assert_eq!(Axes::new(twice).unwrap_err(), "--vary names a twice");
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (text, says) in [
            ("key", "a key, =, and its values"),
            ("key=", "an empty value"),
            ("key=1,,2", "an empty value"),
            ("key=1,2,1", "1 twice"),
            ("key=1..2", "a range is first..last:steps"),
            ("key=1..2:x", "a range is first..last:steps"),
            ("key=1..2:1", "2 to 10000 steps"),
            ("key=1..99999:99999", "2 to 10000 steps"),
            ("key=0..2:*2", "begin above it"),
            ("key=4..2:*2", "ends before it begins"),
            ("key=1..2:*1", "more than 1.01"),
            ("key=1us..2cycles:3", "different units"),
            ("key=0..3:7", "only 4 values here, not 7"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
