//! A number that a Prometheus server knows: an instant query at a turn's end.

use exitscope_http::ServerAddress;
use serde::Deserialize;
use serde_json::Value;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the server may take.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Units of a duration in PromQL, in seconds.
const DURATIONS: [(&str, f64); 7] =
    [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0), ("w", 604_800.0), ("y", 31_536_000.0)];

/// How long the thread that waits may take longer, on a host with little time for it.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes of its answer that are read.
const ANSWER: usize = 64 << 10;

/// A query in PromQL, and the server that answers it.
#[derive(Clone, Debug)]
pub struct PrometheusQuery {
    /// The query; `$__range` in it stands for the length of a turn.
    pub query: String,
    /// The server's address, as it was typed.
    pub address: String,
    /// The server, with the path before `/api`.
    pub server: ServerAddress,
}

/// A query for a turn: not asked before the turn ends.
pub struct TurnQuery {
    query: PrometheusQuery,
    began: Instant,
    answer: Option<Receiver<Result<f64, String>>>,
    came: Option<Result<f64, String>>,
}

impl PrometheusQuery {
    /// The query, and the server's URL.
    pub fn parse(query: &str, server: &str) -> Result<PrometheusQuery, String> {
        let (address, server) = (server.to_string(), ServerAddress::parse(server)?);
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let others = query.split('$').skip(1).map(|rest| rest.trim_start_matches('{').split(|letter| !is_name(letter)));
        match others.filter_map(|mut words| words.next()).find(|&name| name.starts_with("__") && name != "__range") {
            Some(name) => Err(format!("the query has ${name}: only $__range is replaced")),
            None => Ok(PrometheusQuery { query: query.to_string(), address, server }),
        }
    }

    /// Fails if the query looks back for longer than a turn: its answers would be of other turns, too, with other values in force.
    pub fn of_turns(self, turn: Duration) -> Result<PrometheusQuery, String> {
        match ranges(&self.query).into_iter().find(|(_, length)| *length > turn) {
            Some((text, _)) => Err(format!(
                "the query looks back for {text}, longer than a turn of {turn:?}, and so at other turns: write [$__range], or make turns \
                 longer (--turn)"
            )),
            None => Ok(self),
        }
    }

    /// The query of the turn that begins now.
    pub fn begin(&self) -> TurnQuery {
        TurnQuery { query: self.clone(), began: Instant::now(), answer: None, came: None }
    }

    /// What it is now, over the time that is past.
    fn ask(&self, range: Duration) -> Result<f64, String> {
        let query = with_range(&self.query, range);
        let answer = self.server.get("/api/v1/query", &[("query", &query)], ANSWER_TIME, ANSWER);
        let (status, text) = answer.map_err(|error| format!("no answer from Prometheus: {error}"))?;
        value(&text, range).map_err(|error| match status.is_success() {
            true => format!("Prometheus: {error}"),
            false => format!("Prometheus (HTTP {}): {error}", status.as_u16()),
        })
    }
}

impl TurnQuery {
    /// Asks, as the turn has ended. Another thread waits for the answer; returns how long at most.
    pub fn ask(&mut self) -> Duration {
        let (query, range) = (self.query.clone(), self.began.elapsed());
        let (sender, receiver) = channel();
        thread::spawn(move || sender.send(query.ask(range)));
        self.answer = Some(receiver);
        ANSWER_TIME + GRACE
    }

    /// Whether an answer is waited for.
    pub fn is_asked(&mut self) -> bool {
        if let (None, Some(answer)) = (&self.came, &self.answer) {
            self.came = match answer.try_recv() {
                Ok(came) => Some(came),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Err("the query was not asked".to_string())),
            };
        }
        self.answer.is_some() && self.came.is_none()
    }

    /// The answer.
    pub fn end(mut self) -> Result<f64, String> {
        match self.is_asked() {
            true => Err(format!("no answer from Prometheus within {} s", ANSWER_TIME.as_secs())),
            false => self.came.unwrap_or_else(|| Err("the query was not asked".to_string())),
        }
    }
}

/// The durations in brackets outside of strings, like the `5m` of `rate(x[5m])`, and the `1h` of `max_over_time(x[1h:1m])`.
fn ranges(query: &str) -> Vec<(String, Duration)> {
    let (mut ranges, mut quote, mut letters) = (Vec::new(), None, query.char_indices());
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some('"' | '\''), '\\') => drop(letters.next()),
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(letter),
            (None, '#') => drop(letters.by_ref().find(|(_, letter)| *letter == '\n')),
            (None, '[') => {
                let inner = query[at + 1..].split([']', ':']).next().unwrap_or_default().trim();
                ranges.extend(duration(inner).map(|length| (inner.to_string(), length)));
            }
            (None, _) => {}
        }
    }
    ranges
}

/// A duration as PromQL has it, like `1h30m`, or seconds; `None` of another text.
fn duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let (mut seconds, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let number = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let unit = rest[number..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |at| number + at);
        let (_, length) = DURATIONS.iter().find(|(name, _)| *name == &rest[number..unit])?;
        seconds += rest[..number].parse::<f64>().ok()? * length;
        rest = &rest[unit..];
    }
    Duration::try_from_secs_f64(seconds).ok()
}

/// The query with the length of the turn, in whole milliseconds.
fn with_range(query: &str, range: Duration) -> String {
    let milliseconds = range.as_millis().max(1);
    query.replace("${__range}", "$__range").replace("$__range", &format!("{milliseconds}ms"))
}

/// An answer of the API, as far as it is read.
#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: Value,
}

/// The one number of an answer.
fn value(text: &[u8], range: Duration) -> Result<f64, String> {
    let answer: Answer = serde_json::from_slice(text).map_err(|_| {
        let line = String::from_utf8_lossy(text).trim().chars().take(80).collect::<String>();
        format!("the answer is not that of its API: {line:?}")
    })?;
    let data = match (answer.status.as_str(), answer.data) {
        ("success", Some(data)) => data,
        _ => return Err(answer.error),
    };
    let sample = match (data.result_type.as_str(), data.result.as_array().map(Vec::as_slice)) {
        ("scalar", _) => data.result.get(1),
        ("vector", Some([])) => {
            let turn = range.as_secs_f64();
            return Err(format!(
                "the answer is empty: no such series, or the interval of its scrapes is not much shorter than the turn \
                 ({turn:.3} s)"
            ));
        }
        ("vector", Some([one])) => one.get("value").and_then(|value| value.get(1)),
        ("vector", Some(several)) => {
            return Err(format!("the answer has {} series: `sum` or a label makes them one", several.len()));
        }
        (kind, _) => return Err(format!("the answer is a {kind}, not one number")),
    };
    let sample = sample.and_then(Value::as_str).unwrap_or_default();
    match sample.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("the answer is {sample:?}, which is not a number from 0 on")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    const ONE: &str =
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1732640000.1,"41.5"]}]}}"#;

    /// A server that answers one connection, and the line that it was asked.
    fn server(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> (String, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/prom", listener.local_addr().unwrap());
        let asked = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            answer(&mut stream);
            String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_string()
        });
        (address, asked)
    }

    fn sends(status: &'static str, body: &'static str) -> impl FnOnce(&mut TcpStream) + Send + 'static {
        move |stream| {
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    }

    /// As a turn does it that ends at once.
    fn of(query: &str, address: &str, wait: Duration) -> Result<f64, String> {
        let mut turn = PrometheusQuery::parse(query, address)?.begin();
        turn.ask();
        let until = Instant::now() + wait;
        while turn.is_asked() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        turn.end()
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_query_that_looks_back_beyond_its_turn_is_refused() {
        let of = |query: &str| {
            PrometheusQuery::parse(query, "http://localhost:9090").unwrap().of_turns(Duration::from_secs(60))
        };
        for query in [
            "x # it's [5m]",
            "x",
            "rate(x[$__range])",
            "rate(x[1m])",
            "rate(x[59s])",
            "rate(x{y=~\"[5m]\"}[30])",
            "x[",
            "x[5q]",
            "x[é",
        ] {
            assert!(of(query).is_ok(), "{query}");
        }
        for (query, range) in [
            ("rate(x[5m])", "5m"),
            ("rate(x{y='it\\'s'}[1m1ms])", "1m1ms"),
            ("max_over_time(x[ 1h : 1m ])", "1h"),
            ("rate(x[61])", "61"),
        ] {
            let said = of(query).unwrap_err();
            assert!(
                said.starts_with(&format!("the query looks back for {range}, longer than a turn of 60s")),
                "{said}"
            );
        }
    }

    #[test]
    fn the_one_number_of_an_answer_is_the_value_of_the_turn() {
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1732640000.1,"7"]}}"#;
        for (body, value) in [(ONE, 41.5), (scalar, 7.0)] {
            let (address, asked) = server(sends("200 OK", body));
            assert_eq!(of("rate(a[$__range])", &address, LONG), Ok(value));
            let asked = asked.join().unwrap();
            let range = asked.strip_prefix("GET /prom/api/v1/query?query=rate%28a%5B").unwrap();
            let milliseconds: u64 = range.split_once("ms%5D%29 ").unwrap().0.parse().unwrap();
            assert!(milliseconds < 20_000, "{asked}");
        }
    }

    #[test]
    fn an_answer_that_is_not_one_number_says_why() {
        let error = r#"{"status":"error","errorType":"bad_data","error":"parse error: unclosed left parenthesis"}"#;
        let empty = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
        let two = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"1"},"value":[1,"1"]},{"metric":{"a":"2"},"value":[1,"2"]}]}}"#;
        let text = r#"{"status":"success","data":{"resultType":"string","result":[1,"7"]}}"#;
        let nan = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"NaN"]}}"#;
        let below = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"-1"]}}"#;
        for (status, body, says) in [
            ("400 Bad Request", error, "Prometheus (HTTP 400): parse error: unclosed left parenthesis"),
            ("200 OK", empty, "Prometheus: the answer is empty: no such series, or the interval of its scrapes"),
            ("200 OK", two, "Prometheus: the answer has 2 series"),
            ("200 OK", text, "Prometheus: the answer is a string, not one number"),
            ("200 OK", nan, "Prometheus: the answer is \"NaN\", which is not a number from 0 on"),
            ("200 OK", below, "Prometheus: the answer is \"-1\""),
            ("200 OK", "<html>", "Prometheus: the answer is not that of its API: \"<html>\""),
            ("302 Found", "", "Prometheus (HTTP 302): the answer is not that of its API"),
        ] {
            let (address, asked) = server(sends(status, body));
            let error = of("a", &address, LONG).unwrap_err();
            assert!(error.starts_with(says), "{error}");
            asked.join().unwrap();
        }
    }

    #[test]
    fn a_server_that_is_slow_endless_no_server_or_gone_ends_in_an_error() {
        let (address, asked) = server(|stream| drop(stream.read(&mut [0])));
        let before = Instant::now();
        let error = of("a", &address, LONG).unwrap_err();
        assert_eq!(error, "no answer from Prometheus: no whole answer within 5s");
        assert!(before.elapsed() >= ANSWER_TIME);
        asked.join().unwrap();
        // A turn that does not wait for it has no value either.
        let (address, asked) = server(|stream| drop(stream.read(&mut [0])));
        assert_eq!(of("a", &address, Duration::ZERO), Err("no answer from Prometheus within 5 s".to_string()));
        asked.join().unwrap();
        let (address, asked) = server(|stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all(&[b' '; 4096]).is_ok() {}
        });
        let error = of("a", &address, LONG).unwrap_err();
        assert_eq!(error, "no answer from Prometheus: the answer is longer than 65536 bytes");
        asked.join().unwrap();
        let (address, asked) = server(|stream| drop(stream.write_all(b"+OK redis\r\n")));
        assert!(of("a", &address, LONG).unwrap_err().starts_with("no answer from Prometheus: "));
        asked.join().unwrap();
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = of("a", &format!("http://{gone}"), LONG).unwrap_err();
        assert!(error.contains("refused"), "{error}");
    }

    #[test]
    fn the_length_of_the_turn_is_put_into_the_query_and_nothing_else() {
        let of = |query| with_range(query, Duration::from_millis(10_500));
        assert_eq!(of("rate(a[$__range]) / rate(b[${__range}])"), "rate(a[10500ms]) / rate(b[10500ms])");
        for query in ["rate(a[$__rate_interval])", "a * $__range_s"] {
            assert!(PrometheusQuery::parse(query, "http://localhost").is_err(), "{query}");
        }
    }
}
