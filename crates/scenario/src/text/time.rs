//! Times as people write them: `350ns`, `1.5 ms`, `2616 cycles`.

use super::node::quoted;
use exitscope_units::Picos;

/// The longest time in a scenario: a day.
pub const MAX_TIME: Picos = Picos(86_400 * 1_000_000_000_000);

/// Units and their picoseconds. Cycles depend on the clock.
const UNITS: &[(&str, u128)] =
    &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)];

/// Reads a time; cycles are of a clock of `clock_hz`. What is finer than a picosecond is cut.
pub(crate) fn parse(text: &str, clock_hz: u64) -> Result<Picos, String> {
    const HOW: &str = "a number and ps, ns, us, ms, s or cycles, such as \"12us\"";
    let trimmed = text.trim();
    if trimmed.starts_with('-') {
        return Err(format!("{} is negative; a time is not", quoted(text)));
    }
    let end = trimmed.find(|c: char| !matches!(c, '0'..='9' | '.' | '_')).unwrap_or(trimmed.len());
    let (number, unit) = (trimmed[..end].replace('_', ""), trimmed[end..].trim());
    let (numerator, denominator) = match unit {
        _ if number.is_empty() => return Err(format!("{} is not a time: {HOW}", quoted(text))),
        "" => return Err(format!("{} has no unit: a time is {HOW}", quoted(text))),
        "cycles" | "cycle" => (1_000_000_000_000, u128::from(clock_hz)),
        _ => match UNITS.iter().find(|row| row.0 == unit) {
            Some(row) => (row.1, 1),
            None => return Err(format!("{} is not a unit of time: a time is {HOW}", quoted(unit))),
        },
    };
    let too_long = || format!("{} is too long: at most a day", quoted(text));
    let (whole, part) = number.split_once('.').unwrap_or((&number, ""));
    if part.contains('.') || (whole.is_empty() && part.is_empty()) {
        return Err(format!("{} is not a time: {HOW}", quoted(text)));
    }
    // More digits than a picosecond of a day needs change nothing.
    let part = &part[..part.len().min(15)];
    let digits: u128 = format!("{whole}{part}").parse().map_err(|_| too_long())?;
    let scale = 10u128.pow(part.len() as u32) * denominator;
    let picos = digits.checked_mul(numerator).ok_or_else(too_long)? / scale.max(1);
    let picos = u64::try_from(picos).map_err(|_| too_long())?;
    if picos > MAX_TIME.0 { Err(too_long()) } else { Ok(Picos(picos)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_picosecond() {
        for (text, picos) in [
            ("350ns", 350_000),
            ("1.5ms", 1_500_000_000),
            (" 12 us ", 12_000_000),
            ("0.5ns", 500),
            (".25us", 250_000),
            ("1_000ns", 1_000_000),
            ("0s", 0),
            ("7ps", 7),
            ("2616 cycles", 1_046_400),
            ("1 cycle", 400),
            ("0.5 cycles", 200),
            ("1.00000000000000000000000000000000000000000000000001s", 1_000_000_000_000),
            ("86400s", MAX_TIME.0),
        ] {
            assert_eq!(parse(text, 2_500_000_000).unwrap_or_default().0, picos, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_says_why() {
        for (text, says) in [
            ("", r#""" is not a time: a number and ps, ns, us, ms, s or cycles, such as "12us""#),
            ("soon", r#""soon" is not a time: a number and ps, ns, us, ms, s or cycles, such as "12us""#),
            ("12", r#""12" has no unit: a time is a number and ps, ns, us, ms, s or cycles, such as "12us""#),
            (
                "12 min",
                r#""min" is not a unit of time: a time is a number and ps, ns, us, ms, s or cycles, such as "12us""#,
            ),
            ("1.2.3us", r#""1.2.3us" is not a time: a number and ps, ns, us, ms, s or cycles, such as "12us""#),
            ("-3us", r#""-3us" is negative; a time is not"#),
            ("86400.1s", r#""86400.1s" is too long: at most a day"#),
            (
                "99999999999999999999999999999999999999999999s",
                r#""9999999999999999999999999999999999999999"… is too long: at most a day"#,
            ),
        ] {
            assert_eq!(parse(text, 2_500_000_000).unwrap_err(), says, "{text}");
        }
        assert!(parse(".us", 1).is_err());
    }
}
