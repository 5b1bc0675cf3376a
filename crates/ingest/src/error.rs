//! Why something is not added to a store.

use exitscope_pipeline::{AdviceError, ReadError};
use exitscope_store::StoreError;
use std::io;

/// Why something is not added to a store.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The store cannot take it, nor anything else.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What is advised cannot be found out.
    #[error(transparent)]
    Advice(#[from] AdviceError),
    /// The file of trials cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    /// It has more vCPUs than a recording can have.
    #[error("{0} exits are of more vCPUs than a recording can have")]
    TooManyVcpus(String),
    /// Nobody says of which host it is.
    #[error("{0} does not say of which host it is: add --host NAME")]
    NoHost(String),
    /// A trial has no moment at which it began.
    #[error("{0:?} is no moment at which a trial began")]
    NoMoment(String),
}
