//! Opens objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archive::StoreError;
use archive::remote::{self, Version};

use crate::bucket::{Bucket, Settings};
use crate::object::OpenObject;
use crate::repository::ObjectFiles;
use crate::rest::RestFiles;
use crate::runtime::Runtime;
use crate::upload::ObjectUpload;
use crate::url::{RepositoryUrl, Url};

/// Opens objects of S3 stores.
#[derive(Debug)]
pub struct Client {
    settings: Arc<Settings>,
    state: Mutex<State>,
}

/// What exists once there is something to do.
#[derive(Debug, Default)]
struct State {
    runtime: Option<Arc<Runtime>>,
    buckets: BTreeMap<String, Arc<Bucket>>,
}

impl State {
    fn runtime(&mut self) -> Result<Arc<Runtime>, StoreError> {
        Ok(match &self.runtime {
            Some(runtime) => Arc::clone(runtime),
            None => Arc::clone(self.runtime.insert(Arc::new(Runtime::start()?))),
        })
    }
}

impl Client {
    /// A client that reads its settings from the environment. An endpoint that is given has priority over
    /// `AWS_ENDPOINT_URL`. Nothing is connected yet.
    pub fn new(endpoint: Option<String>) -> Client {
        Client {
            settings: Arc::new(Settings::from_environment(endpoint)),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bucket(&self, name: &str) -> Result<Arc<Bucket>, StoreError> {
        let mut state = self.state();
        if let Some(bucket) = state.buckets.get(name) {
            return Ok(Arc::clone(bucket));
        }
        let runtime = state.runtime()?;
        let bucket = Arc::new(Bucket::new(name, &self.settings, runtime)?);
        state.buckets.insert(name.to_owned(), Arc::clone(&bucket));
        Ok(bucket)
    }
}

impl remote::Client for Client {
    fn open(&self, url: &[u8]) -> Result<Arc<dyn remote::Object>, StoreError> {
        let url = Url::parse_object(url)?;
        let bucket = self.bucket(url.bucket)?;
        Ok(Arc::new(OpenObject::open(bucket, url.key)?))
    }

    fn create(
        &self,
        url: &[u8],
        replaces: &Version,
    ) -> Result<Box<dyn remote::Upload>, StoreError> {
        let url = Url::parse_object(url)?;
        let bucket = self.bucket(url.bucket)?;
        Ok(Box::new(ObjectUpload::begin(bucket, url.key, replaces)?))
    }

    fn remove(&self, url: &[u8]) -> Result<(), StoreError> {
        let url = Url::parse_object(url)?;
        self.bucket(url.bucket)?.remove(url.key)
    }

    fn names(&self, url: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let url = Url::parse(url)?;
        self.bucket(url.bucket)?.names(url.key)
    }

    fn repository(&self, location: &str) -> Result<Arc<dyn remote::Files>, StoreError> {
        let runtime = self.state().runtime()?;
        if let Some(url) = location.strip_prefix("rest:") {
            return Ok(Arc::new(RestFiles::new(url, runtime)?));
        }
        let url = RepositoryUrl::parse(location)?;
        let settings = Arc::new(self.settings.at(url.endpoint));
        let bucket = Bucket::new(url.bucket, &settings, runtime)?;
        Ok(Arc::new(ObjectFiles::new(bucket, url.prefix)))
    }
}
