# SPDX-License-Identifier: Apache-2.0
# For Packer 1.7 and later: packer init . (older versions have the builder in them; leave this file out)
packer {
  required_plugins {
    googlecompute = {
      source  = "github.com/hashicorp/googlecompute"
      version = ">= 1.1.0"
    }
  }
}
