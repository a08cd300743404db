-- Empty for ever. Who joins a transaction asks for its rows FOR KEY SHARE, which locks the table and no
-- row, so that those who join do not write into one another's way; a deletion locks it EXCLUSIVE for a
-- moment: then all who have begun to join are seen, and who comes later sees what is deleted.
CREATE TABLE coordinator.joining ();
