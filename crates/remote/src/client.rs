//! Opens objects of S3 stores and files of repositories.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::StoreError;
use catalog::remote::{self, Version};
use gate::sync::Mutex;

use crate::bucket::Bucket;
use crate::object::OpenObject;
use crate::repository::ObjectFiles;
use crate::rest::RestFiles;
use crate::retry::{Notices, OnNotice};
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::upload::ObjectUpload;
use crate::url::{RepositoryUrl, Url};

/// Opens objects of stores.
#[derive(Debug)]
pub struct Client {
    endpoint: Option<String>,
    hides_memory: bool,
    notices: Notices,
    state: Mutex<ClientState>,
}

/// The state of a client that is created on first use.
#[derive(Debug, Default)]
struct ClientState {
    runtime: Option<Arc<Runtime>>,
    buckets: BTreeMap<String, Arc<Bucket>>,
}

impl ClientState {
    fn runtime(&mut self) -> Result<Arc<Runtime>, StoreError> {
        Ok(match &self.runtime {
            Some(runtime) => Arc::clone(runtime),
            None => Arc::clone(self.runtime.insert(Arc::new(Runtime::start()?))),
        })
    }
}

impl Client {
    /// A client with settings from the environment. A given endpoint has priority over the
    /// environment's. `on_notice` is called when a request takes long. With `hides_memory`, other
    /// processes cannot read the keys from this process's memory; but the ranks of an MPI job must
    /// read each other's memory. Opens no connection yet.
    pub fn new(endpoint: Option<String>, hides_memory: bool, on_notice: OnNotice) -> Client {
        Client {
            endpoint,
            hides_memory,
            notices: Notices::new(on_notice),
            state: Mutex::default(),
        }
    }

    fn settings(&self) -> Settings {
        // The settings contain secret keys, so keep them out of core dumps and away from debuggers.
        match self.hides_memory {
            true => gate::process::hide_memory(),
            false => gate::process::dump_no_core(),
        }
        Settings::from_environment(self.endpoint.clone())
    }

    fn bucket(&self, url: &Url) -> Result<Arc<Bucket>, StoreError> {
        let mut state = self.state.lock();
        if let Some(bucket) = state.buckets.get(url.bucket) {
            return Ok(Arc::clone(bucket));
        }
        let (settings, runtime) = (self.settings(), state.runtime()?);
        let bucket = Bucket::new(url.bucket, settings, runtime, self.notices.clone())?;
        let bucket = Arc::new(bucket);
        state
            .buckets
            .insert(url.bucket.to_owned(), Arc::clone(&bucket));
        Ok(bucket)
    }
}

impl remote::Client for Client {
    fn open(&self, url: &[u8]) -> Result<Arc<dyn remote::Object>, StoreError> {
        let url = Url::parse_object(url)?;
        let bucket = self.bucket(&url)?;
        Ok(Arc::new(OpenObject::open(bucket, url.key)?))
    }

    fn create(
        &self,
        url: &[u8],
        replaces: &Version,
    ) -> Result<Box<dyn remote::Upload>, StoreError> {
        let url = Url::parse_object(url)?;
        let bucket = self.bucket(&url)?;
        Ok(Box::new(ObjectUpload::begin(bucket, url.key, replaces)?))
    }

    fn remove(&self, url: &[u8]) -> Result<(), StoreError> {
        let url = Url::parse_object(url)?;
        self.bucket(&url)?.remove(url.key)
    }

    fn names(&self, url: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let url = Url::parse(url)?;
        self.bucket(&url)?.names(url.key)
    }

    fn repository(&self, location: &str) -> Result<Arc<dyn remote::Files>, StoreError> {
        let runtime = self.state.lock().runtime()?;
        if let Some(url) = location.strip_prefix("rest:") {
            return Ok(Arc::new(RestFiles::new(
                url,
                runtime,
                self.notices.clone(),
            )?));
        }
        let url = RepositoryUrl::parse(location)?;
        let settings = self.settings().at(url.endpoint);
        let bucket = Bucket::new(url.bucket, settings, runtime, self.notices.clone())?;
        Ok(Arc::new(ObjectFiles::new(bucket, url.prefix)))
    }
}
