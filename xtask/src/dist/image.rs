//! The image for containers: one layer with the program alone, for a user who is not root.
//!
//! An image layout of https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md in a tar archive, which podman
//! loads, and which skopeo calls `oci-archive`.

use super::contents::{Layout, PackagedFile, compressed, files};
use super::{sha256, tarball};
use serde_json::{Value, json};
use std::path::Path;

/// nobody, as everywhere.
pub const USER: &str = "65534:65534";

/// The image's name in dist/.
pub fn name() -> String {
    format!("exitscope-{}-oci.tar", super::VERSION)
}

/// What the image is called where it is loaded: podman takes what has no colon as a name.
pub fn reference() -> String {
    format!("exitscope:{}", super::VERSION)
}

/// Content of an image, called by its hash.
struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Blob {
        Blob { digest: sha256(&bytes), bytes }
    }

    fn of(value: &Value) -> Blob {
        Blob::new(value.to_string().into_bytes())
    }

    fn descriptor(&self, kind: &str) -> Value {
        let kind = format!("application/vnd.oci.image.{kind}");
        json!({ "mediaType": kind, "digest": format!("sha256:{}", self.digest), "size": self.bytes.len() })
    }

    fn file(self) -> PackagedFile {
        PackagedFile { path: format!("blobs/sha256/{}", self.digest), bytes: self.bytes, mode: 0o644 }
    }
}

/// Writes the image of a program.
pub fn make(program: &Path, into: &Path) -> anyhow::Result<()> {
    let archive = tarball::archive(&files(Layout::Container, program)?, None)?;
    let unpacked = sha256(&archive);
    let layer = Blob::new(compressed(&archive)?);
    let config = Blob::of(&json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": ["/usr/bin/exitscope"],
            "Cmd": ["--help"],
            "Labels": {
                "org.opencontainers.image.title": "exitscope",
                "org.opencontainers.image.version": super::VERSION,
                "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{unpacked}")] },
    }));
    let manifest = Blob::of(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor("config.v1+json"),
        "layers": [layer.descriptor("layer.v1.tar+gzip")],
    }));
    let mut named = manifest.descriptor("manifest.v1+json");
    named["annotations"] = json!({ "org.opencontainers.image.ref.name": reference() });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [named],
    });
    let said = |path: &str, value: Value| {
        let bytes = value.to_string().into_bytes();
        PackagedFile { path: path.to_string(), bytes, mode: 0o644 }
    };
    let files = [
        said("oci-layout", json!({ "imageLayoutVersion": "1.0.0" })),
        said("index.json", index),
        config.file(),
        layer.file(),
        manifest.file(),
    ];
    Ok(std::fs::write(into.join(name()), tarball::archive(&files, None)?)?)
}
