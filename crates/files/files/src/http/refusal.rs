//! The requests that a site refuses, each by name, and those that must wait for the disk.

use crate::error::FilesError;
use crate::origin::NotRead;
use http::StatusCode;
use tree::ChunkHash;
use types::Time;

/// A refused request.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A method other than GET and HEAD.
    Method,
    /// A path that is badly encoded, or has a part that climbs.
    Path,
    /// There is no such file in the revision.
    NotFound,
    /// A range that the file does not have; its size.
    Range(u64),
    /// The revision of the visitor's page is no longer kept.
    RevisionGone,
    /// The visitor has seen a newer revision than the newest here.
    Behind,
    /// The revision may not be the newest, and this server was told to refuse that.
    Stale,
    /// The site has no revision yet.
    Empty,
    /// Content that is not here could not be fetched: gone at the store, late, or without room on the disk.
    NotFetched(FilesError),
    /// The store failed.
    Failed(FilesError),
}

impl Refusal {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Path => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Range(_) => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::RevisionGone => StatusCode::GONE,
            Self::Behind | Self::Stale | Self::Empty | Self::NotFetched(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The name, and what the client can do. Details of the store are for its operators.
    pub(crate) fn text(&self) -> &'static str {
        match self {
            Self::Method => "method: a published file can be read with GET and HEAD\n",
            Self::Path => "path: a path consists of names between slashes, none of them '..'\n",
            Self::NotFound => "not-found: there is no such file\n",
            Self::Range(_) => "range: the file does not have these bytes\n",
            Self::RevisionGone => "revision-gone: the page's revision is no longer kept; load the page again\n",
            Self::Behind => "behind: you have seen a newer revision elsewhere; try again\n",
            Self::Stale => "stale: this server cannot know whether there is a newer revision; try again\n",
            Self::Empty => "no-revision: nothing has been published yet\n",
            Self::NotFetched(_) => "not-fetched: the file's content could not be fetched from the store; try again\n",
            Self::Failed(_) => "failed: the file cannot be read; the operators can see why\n",
        }
    }
}

impl From<FilesError> for Refusal {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::NoPath(_) | FilesError::WrongKind(..) => Self::NotFound,
            FilesError::ContentGone(_) | FilesError::ContentLate(_) | FilesError::ContentUnkept(_) => {
                Self::NotFetched(error)
            }
            error => Self::Failed(error),
        }
    }
}

/// The reason why a request has no answer from here.
#[derive(Debug)]
pub(crate) enum Missed {
    /// A part of the answer is not in memory, and the request may not wait here.
    OnDisk,
    /// Content that is not here: to be fetched.
    Elsewhere(ChunkHash),
    /// The newest revision is being fetched, for which the visitor waits since then (`spread::Opened::Later`).
    Later(Time),
    /// The request is refused.
    Refused(Refusal),
}

impl Missed {
    /// The refusal of a request that was answered by a reader that waits.
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Self::OnDisk | Self::Elsewhere(_) | Self::Later(_) => Refusal::Failed(FilesError::Interrupted),
            Self::Refused(refusal) => refusal,
        }
    }
}

impl From<Refusal> for Missed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<FilesError> for Missed {
    fn from(error: FilesError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<NotRead> for Missed {
    fn from(not_read: NotRead) -> Self {
        match not_read {
            NotRead::OnDisk => Self::OnDisk,
            NotRead::Elsewhere(hash) => Self::Elsewhere(hash),
            NotRead::Failed(error) => error.into(),
        }
    }
}
