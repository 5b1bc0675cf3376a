//! Certificates, keys and tokens out of files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// The longest token, in bytes.
const TOKEN: u64 = 4096;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// It cannot be read.
    #[error("cannot read {0}")]
    Io(PathBuf, #[source] io::Error),
    /// It holds no token.
    #[error("{0}: a token is one line of up to {TOKEN} letters, digits and signs, without spaces")]
    Token(PathBuf),
    /// It holds no certificates.
    #[error("{0}: no certificates in PEM")]
    Certificates(PathBuf, #[source] Option<pem::Error>),
    /// It holds no private key.
    #[error("{0}: no private key in PEM")]
    Key(PathBuf, #[source] pem::Error),
    /// Certificate and key are not for one another, or of a kind that is not known.
    #[error("the certificate and its key do not make a TLS server")]
    Pair(#[source] rustls::Error),
}

/// TLS with this certificate (and those that vouch for it, in the same file) and this key, both PEM.
pub fn tls(certificates: &Path, key: &Path) -> Result<TlsAcceptor, AccessError> {
    let chain: Result<Vec<CertificateDer>, pem::Error> =
        CertificateDer::pem_file_iter(certificates).and_then(Iterator::collect);
    let chain = chain.map_err(|error| AccessError::Certificates(certificates.into(), Some(error)))?;
    if chain.is_empty() {
        return Err(AccessError::Certificates(certificates.into(), None));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| AccessError::Key(key.into(), error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(AccessError::Pair)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The token in this file: its only line.
pub fn token(path: &Path) -> Result<String, AccessError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(TOKEN + 1).read_to_string(&mut text));
    read.map_err(|error| AccessError::Io(path.into(), error))?;
    let token = text.trim_end_matches(['\r', '\n']);
    if token.is_empty() || text.len() as u64 > TOKEN || token.contains(|letter: char| !letter.is_ascii_graphic()) {
        return Err(AccessError::Token(path.into()));
    }
    Ok(token.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for (text, token) in [
            ("secret\n", Some("secret")),
            ("secret", Some("secret")),
            ("", None),
            ("\n", None),
            ("two\nlines\n", None),
            ("two words", None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(super::token(&path).ok().as_deref(), token, "{text:?}");
        }
        std::fs::write(&path, vec![b'x'; TOKEN as usize + 1]).unwrap();
        assert!(super::token(&path).is_err());
        assert!(super::token(&folder.path().join("none")).unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty.pem");
        std::fs::write(&path, "").unwrap();
        assert!(tls(&path, &path).is_err_and(|error| error.to_string().contains("no certificates")));
    }
}
