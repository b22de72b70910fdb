-- When the store's clock was last written, by a clock of the machine that nobody can set: how long the machine had been
-- running, and in which of its runs. With both, the time since then is known whatever became of the machine's date.
ALTER TABLE clock ADD COLUMN boot TEXT;
ALTER TABLE clock ADD COLUMN uptime INTEGER;
