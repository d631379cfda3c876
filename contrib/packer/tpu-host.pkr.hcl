# SPDX-License-Identifier: Apache-2.0
# An image for TPU hosts on Compute Engine: packer build -var project=PROJECT -var folder=FOLDER .
# It is baked on a small machine without TPUs.

variable "project" {
  type = string
}

variable "zone" {
  type    = string
  default = "us-east5-b"
}

# The packages (*.deb), and below etc/ the site's files for all hosts: bake.sh.
variable "folder" {
  type = string
}

source "googlecompute" "tpu-host" {
  project_id              = var.project
  zone                    = var.zone
  machine_type            = "e2-standard-4"
  source_image_family     = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
  source_image_project_id = ["ubuntu-os-accelerator-images"]
  image_name              = "tpu-host-{{timestamp}}"
  image_family            = "tpu-host"
  ssh_username            = "packer"
}

build {
  sources = ["source.googlecompute.tpu-host"]

  # What is copied goes into a folder only where that is there.
  provisioner "shell" {
    inline = ["mkdir -p /tmp/tpu-hostd"]
  }

  provisioner "file" {
    source      = "${var.folder}/"
    destination = "/tmp/tpu-hostd"
  }

  provisioner "file" {
    source      = "${path.root}/bake.sh"
    destination = "/tmp/bake.sh"
  }

  # The last one: the daemons stay stopped, so that nothing is written after it.
  provisioner "shell" {
    inline = ["sudo sh /tmp/bake.sh /tmp/tpu-hostd"]
  }
}
