//! The `format` text of one tracepoint, as tracefs shows it and as traces carry it.
//!
//! ```text
//! name: kvm_exit
//! ID: 1473
//! format:
//!         field:unsigned short common_type;       offset:0;       size:2; signed:0;
//!         field:unsigned int exit_reason; offset:8;       size:4; signed:0;
//! print fmt: "reason %s …"
//! ```

/// A field of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, without array brackets.
    pub name: String,
    /// Bytes from the start of the record.
    pub offset: usize,
    /// Bytes it takes.
    pub size: usize,
    /// Whether it is signed.
    pub signed: bool,
}

/// The layout of one tracepoint's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The event's name, without its system.
    pub name: String,
    /// The numeric id that records of this trace carry in `common_type`.
    pub id: u32,
    /// The fields, common ones first.
    pub fields: Vec<Field>,
}

impl Format {
    /// Reads a `format` text; `None` if it has no name or no id. Lines that it cannot read are left out.
    pub fn parse(text: &str) -> Option<Format> {
        let (mut name, mut id, mut fields) = (None, None, Vec::new());
        for line in text.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("name:") {
                name = Some(rest.trim().to_string());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = rest.trim().parse().ok();
            } else if line.starts_with("field:") {
                fields.extend(parse_field(line));
            } else if line.starts_with("print fmt:") {
                break;
            }
        }
        Some(Format { name: name?, id: id?, fields })
    }

    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

fn parse_field(line: &str) -> Option<Field> {
    let (mut name, mut offset, mut size, mut signed) = (None, None, None, false);
    for part in line.split(';') {
        let (key, value) = match part.trim().split_once(':') {
            Some(pair) => pair,
            None => continue,
        };
        match key {
            "field" | "field special" => {
                // Of a string at the record's end the brackets are before the name: `__data_loc char[] name`.
                let dynamic = value.strip_prefix("__data_loc ").and_then(|of| of.rsplit_once(']'));
                let declaration =
                    dynamic.map_or_else(|| value.split('[').next().unwrap_or(value), |of| of.1).trim_end();
                name = declaration.rsplit([' ', '*', '\t']).next().map(str::to_string);
            }
            "offset" => offset = value.trim().parse().ok(),
            "size" => size = value.trim().parse().ok(),
            "signed" => signed = value.trim() == "1",
            _ => {}
        }
    }
    Some(Field { name: name?, offset: offset?, size: size?, signed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_text_is_read_field_by_field() {
        let format = Format::parse(
            "name: kvm_pio\nID: 1477\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:__u8 insn[15];\toffset:8;\tsize:15;\tsigned:0;\n\tfield:const char * name;\toffset:24;\tsize:8;\tsigned:1;\n\nprint fmt: \"x;y\"\n",
        )
        .unwrap();
        assert_eq!((format.name.as_str(), format.id), ("kvm_pio", 1477));
        let names: Vec<_> = format.fields.iter().map(|field| (field.name.as_str(), field.offset, field.size)).collect();
        assert_eq!(names, [("common_type", 0, 2), ("insn", 8, 15), ("name", 24, 8)]);
    }

    #[test]
    fn a_text_without_name_or_id_is_no_format() {
        assert_eq!(Format::parse("ID: 3\n"), None);
        assert_eq!(Format::parse("name: x\nID: many\n"), None);
    }
}
