-- Activities that are tried again say why the last try failed.

ALTER TABLE work ADD COLUMN last_error TEXT;
