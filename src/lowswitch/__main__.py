import sys

from lowswitch.cli import main

sys.exit(main())
