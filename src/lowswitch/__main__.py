import sys

from lowswitch.cli.commands import main

sys.exit(main())
