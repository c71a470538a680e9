//! Handles on the spaces of a store, and their list.

use crate::{Db, Result};
use database::{Space, block_on, check_application_space};

impl Db {
    /// A handle on the space of this name: the same store, client and cache, with names of its own. It is made if there
    /// is none, unless the database was opened with [`Builder::create`](crate::Builder::create) off. The space that
    /// every store has is `main`.
    ///
    /// A transaction is not bound to its handle's space: a reference leads to its object wherever that lies, and an
    /// object that is created near another one lies in that one's space.
    ///
    /// ```
    /// # use objects as thorp;
    /// use thorp::{Anywhere, Db, Ref};
    ///
    /// let db = Db::in_memory()?;
    /// let plans = db.space("plans")?;
    /// let plan = plans.transact(|tx| tx.create(Anywhere, &"a shed".to_string()))?;
    /// plans.transact(|tx| tx.set_root("plan", plan))?;
    /// assert!(db.transact(|tx| tx.root::<String>("plan"))?.is_none());
    ///
    /// // What lies in one space may refer to what lies in another.
    /// db.transact(|tx| {
    ///     let current: Ref<Ref<String>> = tx.create(Anywhere, &plan)?;
    ///     let plan = tx.get(current)?;
    ///     tx.put(plan, &"a larger shed".to_string())
    /// })?;
    /// assert_eq!(plans.transact(|tx| tx.get(plan))?, "a larger shed");
    /// # Ok::<(), thorp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchSpace`](crate::Error::NoSuchSpace), [`Error::SpaceName`](crate::Error::SpaceName),
    /// [`Error::TooManySpaces`](crate::Error::TooManySpaces); otherwise what the store says.
    pub fn space(&self, name: &str) -> Result<Self> {
        block_on(self.space_async(name))
    }

    /// [`Db::space`] as a future.
    pub async fn space_async(&self, name: &str) -> Result<Self> {
        check_application_space(name)?;
        let space = self.database.space(name, self.creates).await?;
        Ok(Self { space, ..self.clone() })
    }

    /// All spaces of the store.
    ///
    /// ```
    /// # use objects as thorp;
    /// let db = thorp::Db::in_memory()?;
    /// db.space("plans")?;
    /// let names: Vec<_> = db.spaces()?.into_iter().map(|space| space.name).collect();
    /// assert_eq!(names, ["main", "plans"]);
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn spaces(&self) -> Result<Vec<Space>> {
        block_on(self.spaces_async())
    }

    /// [`Db::spaces`] as a future.
    pub async fn spaces_async(&self) -> Result<Vec<Space>> {
        Ok(self.database.spaces().await?)
    }
}
