//! Who talks to whom.

/// An agent of the relay that is measured, with its key.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) handle: String,
    pub(crate) key: String,
}

/// The agents that the connections speak for.
#[derive(Clone, Debug)]
pub(crate) struct Cast {
    /// Send handoffs to each other. At least two.
    pub(crate) agents: Vec<Agent>,
    /// Have nothing but long threads in their inboxes, for reading. None on a relay that we did not seed.
    pub(crate) readers: Vec<Agent>,
}

impl Cast {
    /// Connections take the agents in turn: more connections than agents share keys, as the sessions of one agent do.
    pub(crate) fn sender(&self, connection: usize) -> &Agent {
        &self.agents[connection % self.agents.len()]
    }

    /// The others, beginning with the one after the sender.
    pub(crate) fn recipients(&self, connection: usize) -> impl Iterator<Item = &Agent> {
        let count = self.agents.len();
        (1..count).map(move |step| &self.agents[(connection + step) % count])
    }

    /// The same agents, all with this key.
    pub(crate) fn with_key(&self, key: &str) -> Cast {
        let with_key = |agents: &[Agent]| {
            let with_key = |agent: &Agent| Agent { handle: agent.handle.clone(), key: key.to_owned() };
            agents.iter().map(with_key).collect()
        };
        Cast { agents: with_key(&self.agents), readers: with_key(&self.readers) }
    }
}
