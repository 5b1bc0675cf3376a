//! Where files of a store are found: on this machine, and in buckets.

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::object_store::ObjectStore;
use exitscope_store::bucket;
use std::sync::Arc;
use url::Url;

/// Directories, and buckets as soon as somebody asks for one: a plan names them, whoever works on it opens them.
#[derive(Debug, Default)]
struct Objects(DefaultObjectStoreRegistry);

impl ObjectStoreRegistry for Objects {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if url.scheme() == "s3" && self.0.get_store(url).is_err() {
            let bucket = bucket(url.as_str()).map_err(|error| DataFusionError::External(error.into()))?;
            self.0.register_store(url, Arc::new(bucket));
        }
        self.0.get_store(url)
    }
}

/// Where queries run.
pub(crate) fn environment() -> RuntimeEnvBuilder {
    RuntimeEnvBuilder::new().with_object_store_registry(Arc::new(Objects::default()))
}
