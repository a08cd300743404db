from __future__ import annotations

from django.db import migrations

# The chain's head is read from the log itself: a temporary table of the same name, which any login
# may make, would come first, and its writer would choose an entry's number and what it follows.
_PATH = "ALTER FUNCTION public.audit_entry_chain() SET search_path = pg_catalog, public, pg_temp"


class Migration(migrations.Migration):
    dependencies = [("audit", "0002_writer")]
    # Irreversible on purpose, as the log is.
    operations = [migrations.RunSQL(_PATH)]
