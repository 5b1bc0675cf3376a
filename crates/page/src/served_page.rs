//! The front end as a server serves it: the same file, with the addresses of what it shows in place of data.

use crate::html::{DATA, TEMPLATE, TITLE};
use exitscope_model::encode;
use serde::Serialize;

/// Where the policy is said in the file.
const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"";
const POLICY_END: &str = "\">\n";

/// Addresses of what the front end shows, on the server that the page is from.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ServedUrls<'a> {
    /// Data of one page, as [`write_data`](crate::write_data) writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a str>,
    /// Notes (server-sent events) that there is newer data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<&'a str>,
    /// Where single exits of a time are asked for, as a [`Question`](crate::Question) without its first word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single: Option<&'a str>,
    /// Where sums of all exits are, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<&'a str>,
    /// The list of files, as JSON; with `data`: of which it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<&'a str>,
    /// For how many nanoseconds what happens is kept, if it is shown as it happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_ns: Option<u64>,
}

#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    addresses: &'a ServedUrls<'a>,
    version: &'static str,
}

/// The page, and the policy (Content-Security-Policy) to send with it; `None` if the front end was not there when this
/// program was built.
pub fn served_page(title: &str, addresses: &ServedUrls) -> Option<(String, String)> {
    let (head, rest) = TEMPLATE.split_once(POLICY)?;
    let (policy, rest) = rest.split_once(POLICY_END)?;
    let (middle, rest) = rest.split_once(TITLE)?;
    let (end, tail) = rest.split_once(DATA)?;
    // JSON holds no `<` but in texts, where it may be spelt so.
    let json = Json { addresses, version: env!("CARGO_PKG_VERSION") };
    let addresses = serde_json::to_string(&json).ok()?.replace('<', "\\u003c");
    let page = [head, middle, &encode::html(&format!("exitscope: {title}")), end, &addresses, tail].concat();
    // What a page from disk does without.
    Some((page, format!("{policy}; connect-src 'self'; frame-ancestors 'none'")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_skips::{Part, or_skip, skip};

    #[test]
    fn a_served_page_may_run_only_its_own_script_and_ask_only_its_own_server() {
        let addresses = ServedUrls { data: Some("/data/0"), files: Some("</script>"), ..ServedUrls::default() };
        let served = served_page("<b>", &addresses);
        assert_eq!(served.is_some(), crate::is_built(), "the file lacks a place for policy, title or data");
        let missing = || skip(Part::FrontEnd, "no front end of pages; `make page` builds it");
        let (page, policy) = or_skip!(served.ok_or_else(missing));
        assert!(!page.contains("Content-Security-Policy") && !policy.contains("unsafe"));
        assert!(policy.contains("default-src 'none'; script-src 'sha256-") && policy.contains("connect-src 'self'"));
        assert!(page.contains("<title>exitscope: &lt;b&gt;</title>"));
        assert!(page.contains(r#">{"data":"/data/0","files":"\u003c/script>","version":""#));
    }
}
