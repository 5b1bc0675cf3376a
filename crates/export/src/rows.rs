//! One row for each exit, as CSV. The columns are [`COLUMNS`]; what the trace does not say is empty.

use crate::{Export, Lane, Lanes, Written};
use csv::{ByteRecord, Writer};
use exitscope_model::codes::detail_name;
use exitscope_model::encode::csv_field;
use exitscope_model::{COLUMNS, Exit, ExitCode, Step};
use exitscope_units::PcpuId;
use exitscope_view::{direction_name, door_name, kind_name};
use std::fmt::Display;
use std::io::{self, Write};

/// Writes rows.
#[derive(Debug)]
pub struct Rows<W: Write> {
    out: Writer<W>,
    lanes: Vec<Lane>,
    fields: Fields,
    /// The last reason, which the next exit often has, too.
    reason: Option<(ExitCode, String)>,
    written: Written,
}

/// A row in the making.
#[derive(Debug, Default)]
struct Fields {
    record: ByteRecord,
    text: String,
}

impl Fields {
    fn put(&mut self, value: impl Display) {
        use std::fmt::Write;
        self.text.clear();
        // A String takes everything.
        let _ = write!(self.text, "{value}");
        self.record.push_field(csv_field(&self.text).as_bytes());
    }

    fn put_if(&mut self, value: Option<impl Display>) {
        match value {
            Some(value) => self.put(value),
            None => self.record.push_field(b""),
        }
    }
}

impl<W: Write> Rows<W> {
    /// Begins with the heading.
    pub fn begin(out: W, lanes: &Lanes) -> io::Result<Rows<W>> {
        let mut out = Writer::from_writer(out);
        out.write_record(COLUMNS.iter().map(|column| column.name)).map_err(io_error)?;
        let lanes = lanes.all().to_vec();
        Ok(Rows { out, lanes, fields: Fields::default(), reason: None, written: Written::default() })
    }
}

impl<W: Write> Export for Rows<W> {
    fn exit(&mut self, lane: usize, exit: &Exit) -> io::Result<()> {
        let (row, fields) = (&self.lanes[lane].row, &mut self.fields);
        fields.record.clear();
        fields.put(exit.at.as_nanos());
        fields.put_if(row.vm);
        fields.put_if(row.vm_name.as_ref());
        fields.put_if(row.vcpu);
        fields.put_if(row.on_cpu);
        fields.put_if(row.tid);
        fields.put_if(Some(exit.cpu.0).filter(|_| exit.cpu != PcpuId(u32::MAX)));
        if self.reason.as_ref().is_none_or(|(code, _)| *code != exit.code) {
            self.reason = Some((exit.code, exit.code.name()));
        }
        fields.put_if(self.reason.as_ref().map(|(_, name)| name));
        fields.put(door_name(exit.door));
        let detail = exit.detail;
        fields.put_if(detail.map(|of| kind_name(of.kind).0));
        fields.put_if(detail.map(|of| of.key));
        fields.put_if(detail.and_then(|of| detail_name(of.kind, of.key)));
        fields.put_if(detail.and_then(|of| direction_name(of.kind, of.write)));
        fields.put_if(detail.map(|of| of.size).filter(|size| *size > 0));
        fields.put_if(detail.map(|of| of.value));
        fields.put_if(exit.injected);
        fields.put(exit.timed);
        let step = |step| exit.way.time(step).0;
        let times = [
            exit.total().0,
            exit.kernel.0,
            exit.user.0,
            exit.idle.0,
            exit.waiting.0,
            step(Step::Reaching),
            step(Step::Leaving),
            step(Step::Asleep),
            step(Step::Entering),
        ];
        for time in times {
            fields.put_if(Some(time).filter(|_| exit.timed));
        }
        fields.put(exit.guest.0);
        self.out.write_byte_record(&fields.record).map_err(io_error)?;
        match exit.timed {
            true => self.written.exits += 1,
            false => self.written.untimed += 1,
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<Written> {
        self.out.flush()?;
        Ok(self.written)
    }
}

/// The error with its kind, which tells a closed pipe.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
